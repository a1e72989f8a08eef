"""The operator of the forms to rerun, cancel, and export work orders."""

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.operators.base import DatabaseOperator, triggering_user
from workorders.core.bulk import capacity, jobs, runner
from workorders.core.bulk.jobs import Job, JobBusyError, NoCapacityError
from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.states import WorkOrderState

if TYPE_CHECKING:
    from airflow.sdk import Context

EXPORTS_VARIABLE: Final = "WORKORDERS_EXPORTS"
"""Environment variable with the folder on the workers for exports; `exports` in AIRFLOW_HOME if it is not set."""
RETRY_DELAY: Final = jobs.HEARTBEAT_TIMEOUT + timedelta(seconds=10)
"""Another try cannot take over the job of a task that died before this time."""

_FILE_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*\.(jsonl|csv)$"
_REPORT_SECONDS: Final = 5.0
_TEXTS: Final = ("trigger", "workflow", "state", "rejection", "stream", "ordering_key", "text")


def form(kind: str) -> dict[str, Param]:
    """Return the fields of the form of one kind of job."""
    fields = {
        "trigger": _optional("Trigger", "Only of this trigger."),
        "workflow": _optional("Workflow", "Only for this workflow."),
        "state": Param(
            None,
            type=["null", "string"],
            enum=[None, *(state.value for state in WorkOrderState)],
            title="State",
            # Otherwise the page shows "null".
            values_display={"null": "any"},
        ),
        "rejection": _optional("Rejection", "Only rejected for this reason, such as not-json."),
        "since": _optional("Since", "Created at this time or later.", format="date-time"),
        "until": _optional("Until", "Created before this time.", format="date-time"),
        "stream": _optional("Stream", "Only streams with this prefix, such as orders/0@."),
        "from_position": _optional("From position", "First position in the stream.", "integer"),
        "to_position": _optional("To position", "First position after the range.", "integer"),
        "ordering_key": _optional("Ordering key", "Only with this value of the ordering key."),
        "text": _optional("Text", "Words that body, request or rejection must all contain; a word may end in *."),
        "id": _optional("Work order", "Id of a single work order."),
    }
    if kind == "export":
        fields["file"] = Param(
            "work_orders.jsonl",
            type="string",
            pattern=_FILE_NAME,
            title="File",
            description=f"A new file in the folder of {EXPORTS_VARIABLE}; it ends in .jsonl or .csv.",
        )
    return {
        **fields,
        "reason": Param(type="string", minLength=1, title="Reason", description="Why you do it; kept with the job."),
        "dry_run": Param(True, type="boolean", title="Dry run", description="Only count what matches."),
    }


class ProgressLogger:
    """Logs the progress of a job every few seconds."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._logged_at = time.monotonic()

    def __call__(self, job: Job) -> None:
        """Log it, unless that was done a moment ago."""
        if time.monotonic() - self._logged_at > _REPORT_SECONDS:
            self._logged_at = time.monotonic()
            self._log.info("%s", job)


class BulkJobOperator(DatabaseOperator):
    """Creates one job from the form of the Dag run and runs it; with `dry_run` it only counts.

    A try after a crash continues the job, because the job belongs to the Dag run.

    Args:
        kind: rerun, cancel or export.
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#fdf0d5"
    undone = "What the job had done stays done, and a further try continues it."

    def __init__(self, *, kind: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.where = f"The form to {kind} work orders"

    def work(self, connection: Connection, context: "Context") -> dict[str, Any]:
        """Count, and unless it is a dry run, run the job; return the numbers.

        Raises:
            AirflowFailException: a field of the form is wrong, or the job failed for a permanent reason.
            JobBusyError: another process runs the job.
            NoCapacityError: a workflow's limits have no capacity for the rest of the job now.
        """
        params: Mapping[str, Any] = context["params"]
        run, user = context["dag_run"], triggering_user(context)
        try:
            wanted = filter_of(params)
            if params["dry_run"]:
                return self._dry_run(connection, wanted)
            options = self._options(params)
            job = jobs.create_job(
                connection,
                self.kind,
                wanted,
                actor=user,
                account=user,
                reason=params["reason"],
                options=options,
                request_key=f"{run.dag_id}/{run.run_id}",
            )
            connection.commit()
            return self._run(connection, job, Path(options["file"]) if options else None)
        except (JobBusyError, NoCapacityError):
            raise
        except WorkOrdersError as error:
            raise AirflowFailException(str(error)) from error

    def _dry_run(self, connection: Connection, wanted: Filter) -> dict[str, Any]:
        counts = jobs.count_matching(connection, wanted)
        for state, number in counts.items():
            self.log.info("Matches: %s work orders that are %s", f"{number:,}", state)
        for at in capacity.capacity_for(connection, wanted) if self.kind == "rerun" else ():
            self.log.info("%s", at)
        self.log.info(
            "%s work orders match in all. Nothing was changed; trigger this Dag again without the dry run to do it.",
            f"{sum(counts.values()):,}",
        )
        return {"total": sum(counts.values()), "by_state": counts}

    def _run(self, connection: Connection, job: Job, file: Path | None) -> dict[str, Any]:
        if job.state not in {"finished", "cancelled"}:
            self.log.info("Job %s has %s work orders: %s", job.id, f"{job.total:,}", job.wanted)
            job = runner.run_job(connection, job.id, progress=ProgressLogger(self.log), file=file)
        self.log.info("%s", job)
        if job.state == "waiting":
            raise NoCapacityError(f"{job} {job.error}")
        return {"job": job.id, "state": job.state, "total": job.total, "done": job.done, "skipped": dict(job.skipped)}

    def _options(self, params: Mapping[str, Any]) -> dict[str, str]:
        if self.kind != "export":
            return {}
        home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
        folder = Path(os.environ.get(EXPORTS_VARIABLE) or home / "exports")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return {
            "file": str((folder / params["file"]).absolute()),
            "format": Path(params["file"]).suffix.removeprefix("."),
        }


def filter_of(params: Mapping[str, Any]) -> Filter:
    """Return the filter of a form; an empty field filters nothing.

    Raises:
        ConfigurationError: a time or an id has a wrong form.
    """
    given: dict[str, Any] = {name: params[name] for name in _TEXTS if params[name]}
    given |= {name: params[name] for name in ("from_position", "to_position") if params[name] is not None}
    for name in ("since", "until"):
        if params[name]:
            given[name] = _parsed_time(name, params[name])
    if params["id"]:
        given["id"] = _parsed_id(params["id"])
    return Filter(reason=given.pop("rejection", None), **given)


def _parsed_time(name: str, given: str) -> datetime:
    try:
        time_ = datetime.fromisoformat(given)
    except ValueError as error:
        raise ConfigurationError(f"{name}: expected a time such as 2026-03-01T14:30Z, got {given!r}.") from error
    return time_ if time_.tzinfo else time_.replace(tzinfo=UTC)


def _parsed_id(given: str) -> UUID:
    if not re.fullmatch(r"[0-9a-fA-F-]{32,36}", given):
        raise ConfigurationError(f"id: expected the id of a work order, got {given!r}.")
    return UUID(given)


def _optional(title: str, description: str, kind: str = "string", **more: Any) -> Param:
    return Param(None, type=["null", kind], title=title, description=description, **more)
