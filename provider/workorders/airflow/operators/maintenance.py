"""The duties of the maintenance Dag, and the operator that does one: what keeps an installation in order."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.connections import database_url
from workorders.airflow.notifications import load_notifiers, notify_all
from workorders.airflow.task_errors import EXPECTED_FAILURES, explain_failures, reason
from workorders.core import triggers
from workorders.core.admission import gaps
from workorders.core.bulk import runner
from workorders.core.environment import DATABASE_CONNECTION
from workorders.core.history import search_index, work_orders
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection, connect, within_answer_seconds
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import Recovered

if TYPE_CHECKING:
    from airflow.sdk import Context

_REFRESH_SECONDS: Final = 240.0
"""After this time no further step begins; the next Dag run continues."""


def run_bulk_jobs(connection: Connection, log: Any, _: "Context") -> dict[str, Any]:
    """Run reruns and cancels that were created for later, wait after an outage, or are orphaned.

    Raises:
        AirflowFailException: one failed; the others were run.
    """
    worked = runner.resume_orphaned(connection)
    for job in worked.jobs:
        log.info("%s", job)
    if worked.failures:
        # Another try of this task would not take them again, and would hide that they failed.
        raise AirflowFailException(" ".join(worked.failures))
    return dict(Counter(job.state for job in worked.jobs))


def recover_lost_runs(connection: Connection, log: Any, _: "Context") -> dict[str, Any]:
    """Recover the lost runs of every workflow, also of one whose Dag is paused or does not exist any more."""
    recovered = lifecycle.recover_lost(connection)
    if recovered != Recovered():
        log.warning("%s", recovered)
    return asdict(recovered)


def delete_expired(connection: Connection, log: Any, _: "Context") -> dict[str, Any]:
    """Once per day, erase and delete what has expired by the retention of each workflow, and delete old batches."""
    with connection.transaction():
        is_due = retention.is_due(connection)
    if not is_due:
        log.info("Nothing to do: retention runs elsewhere, or ended less than a day ago.")
        return {}
    swept = retention.delete_expired(connection)
    log.info("%s work orders were deleted, and %s inputs erased.", f"{swept.deleted:,}", f"{swept.wiped:,}")
    return asdict(swept)


def delete_expired_steps(connection: Connection, log: Any, _: "Context") -> dict[str, Any]:
    """Delete what transactions have stored for work orders that retention deleted or erased a day ago.

    Raises:
        AirflowFailException: a database of a workflow failed; the others were done.
    """
    with connection.transaction():
        databases = retention.list_step_databases(connection)
    deleted, failures = 0, list[str]()
    for name in databases:
        try:
            with connect(
                database_url(name), application_name="workorders delete_expired_steps", may_wait=within_answer_seconds
            ) as database:
                deleted += retention.delete_steps(connection, name, database)
        except EXPECTED_FAILURES as error:
            if connection.closed:
                raise
            failures.append(f"Airflow connection {name}: {reason(error)}")
    log.info("%s results of transactions were deleted.", f"{deleted:,}")
    if failures:
        raise AirflowFailException(
            f"Results of transactions were not deleted from {len(failures)} of {len(databases)} databases; the next "
            f"Dag run continues. {' '.join(failures)}"
        )
    return {"deleted": deleted}


def refresh_search_index(connection: Connection, log: Any, _: "Context") -> dict[str, Any]:
    """Add the words of new work orders until none are left or the time is over; count by state if that is due."""
    end = time.monotonic() + _REFRESH_SECONDS
    filled = looked_again = 0
    while time.monotonic() < end and (added := search_index.index_new(connection)):
        filled += added
    while time.monotonic() < end and (looked := search_index.index_late(connection)):
        looked_again += looked
    counted = work_orders.refresh_counts(connection)
    log.info("%s work orders were added to the index, and %s were indexed again.", f"{filled:,}", f"{looked_again:,}")
    return {"filled": filled, "looked_again": looked_again, "counted": counted}


def check_gaps(connection: Connection, log: Any, context: "Context") -> dict[str, Any]:
    """Send the alerts that are due for the sequences of every trigger, each once, and fail if one opens.

    A Kafka trigger alerts after each attempt at a batch as well, but a gap also ages while no message arrives.

    Raises:
        AirflowFailException: an alert was sent for a gap. It is not sent again, so there is no retry.
    """
    alerts, opened = 0, list[str]()
    for name, notify in gaps.list_watched(connection):
        notifiers = load_notifiers(notify, log)
        due = gaps.claim_alerts(connection, triggers.find(connection, name))
        # A slow notifier must hold no lock.
        connection.commit()
        notify_all(due, notifiers, context, log)
        opened += [alert.sentence for alert in due if not alert.cleared]
        alerts += len(due)
    if opened:
        more = f" {len(opened) - 1} more are in the log above." if len(opened) > 1 else ""
        raise AirflowFailException(opened[0] + more)
    return {"alerts": alerts}


@dataclass(frozen=True, slots=True)
class Duty:
    """What a task of the maintenance Dag does."""

    where: str
    """The object of the sentence about a failure."""
    work: Callable[[Connection, Any, "Context"], dict[str, Any]]
    """Does it with a connection, the task's log, and its context, and returns the results."""
    undone: str = "What was done stays done."
    """A sentence about what was done and what was not."""


DUTIES: Final[Mapping[str, Duty]] = {
    "run_bulk_jobs": Duty("Pending bulk operations", run_bulk_jobs),
    "recover_lost_runs": Duty("The recovery of lost runs", recover_lost_runs),
    "delete_expired": Duty("The retention of the history", delete_expired),
    "delete_expired_steps": Duty("The retention of results of transactions", delete_expired_steps),
    "refresh_search_index": Duty("The refresh of the search index", refresh_search_index),
    "check_gaps": Duty("The check of sequences for gaps", check_gaps, "No alert for a gap was lost."),
}
"""By the ids of their tasks."""


class MaintenanceOperator(BaseOperator):
    """Does a duty in one connection to the work orders' database."""

    ui_color = "#fdf0d5"

    def __init__(self, *, duty: str, database_connection: str = DATABASE_CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.duty = duty
        self.database_connection = database_connection

    def execute(self, context: "Context") -> dict[str, Any]:
        """Do it and return its results; what was done before a failure stays done."""
        duty = DUTIES[self.duty]
        with (
            explain_failures(self, context, duty.where, duty.undone, again="The next Dag run continues."),
            connect(
                database_url(self.database_connection),
                application_name=f"workorders {self.duty}",
                may_wait=within_answer_seconds,
            ) as connection,
        ):
            return duty.work(connection, self.log, context)
