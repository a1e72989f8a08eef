"""The Dags of an installation: its maintenance, a task per duty, and its metrics where Airflow sends its own."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, Context, conf
from airflow.sdk.exceptions import AirflowFailException

from workorders import dag_ids
from workorders.airflow.connections import database_url
from workorders.airflow.dags.factories import continuous_dag, new_dag
from workorders.airflow.notifications import load_notifiers, notify_all
from workorders.airflow.page_links import page_path
from workorders.airflow.retries import unlimited_retries
from workorders.airflow.stats import ReportMetricsTrigger
from workorders.airflow.task_errors import EXPECTED_FAILURES, explain_failures, reason
from workorders.airflow.triggers.polling import PollingSensor
from workorders.core import triggers
from workorders.core.admission import gaps
from workorders.core.bulk import runner
from workorders.core.environment import DATABASE_CONNECTION
from workorders.core.history import search_index, work_orders
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection, connect, within_answer_seconds
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import Recovered

_TAGS: Final = ["maintenance", "workorders"]
_LONG_DUTIES: Final = 16
"""Dag runs at a time. A duty may last for hours, so the next Dag run begins in spite of it; what it does already is not
done twice, because the database tells who does it."""
_STATS: Final = ("statsd_on", "statsd_datadog_enabled", "otel_on")
_REFRESH_SECONDS: Final = 240.0
"""After this time no further step begins; the next Dag run continues."""


def maintenance_dags(database_connection: str = DATABASE_CONNECTION) -> dict[str, DAG]:
    """Return the Dags by id, for the database of an Airflow connection, `workorders_db` unless another is named."""
    dags = [_maintenance_dag(database_connection)]
    if any(conf.getboolean("metrics", name, fallback=False) for name in _STATS):
        dags.append(_metrics_dag(database_connection))
    return {dag.dag_id: dag for dag in dags}


def _maintenance_dag(database_connection: str) -> DAG:
    with new_dag(
        dag_ids.MAINTENANCE,
        schedule="*/5 * * * *",
        catchup=False,
        max_active_runs=_LONG_DUTIES,
        description="Does what is due: bulk operations, lost runs, retention, the search index, alerts of gaps",
        tags=_TAGS,
        doc_md=_MAINTENANCE_DOC.format(
            overview=page_path(),
            search=page_path("work-orders"),
            parked=page_path("work-orders", state="parked"),
            jobs=page_path("bulk"),
        ),
    ) as dag:
        # Nothing depends on another, so one that fails stops none. The next Dag run is the retry.
        for duty in DUTIES:
            MaintenanceOperator(task_id=duty, database_connection=database_connection, retries=0)
    return dag


def _metrics_dag(database_connection: str) -> DAG:
    with continuous_dag(
        dag_ids.METRICS,
        description="Sends the metrics to StatsD or OpenTelemetry",
        tags=_TAGS,
        doc_md=_METRICS_DOC.format(overview=page_path()),
    ) as dag:
        trigger = ReportMetricsTrigger(database_connection=database_connection)
        PollingSensor(task_id="report_metrics", trigger=trigger, **unlimited_retries())
    return dag


def run_bulk_jobs(connection: Connection, log: Any, _: Context) -> dict[str, Any]:
    """Run reruns and cancels that were created for later, wait after an outage, or are orphaned; fail if one failed."""
    worked = runner.resume_orphaned(connection)
    for job in worked.jobs:
        log.info("%s", job)
    if worked.failures:
        # Another try of this task would not take them again, and would hide that they failed.
        raise AirflowFailException(" ".join(worked.failures))
    return dict(Counter(job.state for job in worked.jobs))


def recover_lost_runs(connection: Connection, log: Any, _: Context) -> dict[str, Any]:
    """Recover the lost runs of every workflow, also of one whose Dag is paused or does not exist any more."""
    recovered = lifecycle.recover_lost(connection)
    if recovered != Recovered():
        log.warning("%s", recovered)
    return asdict(recovered)


def delete_expired(connection: Connection, log: Any, _: Context) -> dict[str, Any]:
    """Once per day, erase and delete what has expired by the retention of each workflow, and delete old batches."""
    with connection.transaction():
        is_due = retention.is_due(connection)
    if not is_due:
        log.info("Nothing to do: retention runs elsewhere, or ended less than a day ago.")
        return {}
    swept = retention.delete_expired(connection)
    log.info("%s work orders were deleted, and %s inputs erased.", f"{swept.deleted:,}", f"{swept.wiped:,}")
    return asdict(swept)


def delete_expired_steps(connection: Connection, log: Any, _: Context) -> dict[str, Any]:
    """Delete what transactions have stored for work orders that retention deleted or erased a day ago."""
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


def refresh_search_index(connection: Connection, log: Any, _: Context) -> dict[str, Any]:
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


def check_gaps(connection: Connection, log: Any, context: Context) -> dict[str, Any]:
    """Send the alerts that are due for the sequences of every trigger, each once, and fail if one opens."""
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
    work: Callable[[Connection, Any, Context], dict[str, Any]]
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
    """Does the duty of its task id in one connection to the work orders' database."""

    ui_color = "#fdf0d5"

    def __init__(self, *, database_connection: str = DATABASE_CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.database_connection = database_connection

    def execute(self, context: Context) -> dict[str, Any]:
        """Do it and return its results; what was done before a failure stays done."""
        duty = DUTIES[self.task_id]
        with (
            explain_failures(self, context, duty.where, duty.undone, again="The next Dag run continues."),
            connect(
                database_url(self.database_connection),
                application_name=f"workorders {self.task_id}",
                may_wait=within_answer_seconds,
            ) as connection,
        ):
            return duty.work(connection, self.log, context)


_MAINTENANCE_DOC = """
Does for the whole database what is due. Each task is one duty:

* `run_bulk_jobs` runs pending reruns and cancels: those created with `--detach`, those that wait for capacity in the
  limits of a workflow, and orphaned ones, whose process died. [The page of bulk operations]({jobs}), or
  `workorders bulk list`, shows them. One that fails makes the task fail, and is not retried.
* `recover_lost_runs` recovers the lost runs of every workflow, also of one whose Dag is paused.
* `delete_expired` erases inputs, outputs, and logs, and deletes work orders by the `retention` of each workflow, once
  per day. It also deletes the rows of old batches.
  [The overview]({overview}) leads to the page of each workflow, which shows what is deleted when.
* `delete_expired_steps` deletes the results of transactions from the `database` of each workflow, a day after their
  work orders were deleted or erased. If a database is unavailable, the task fails after it has done the others.
* `refresh_search_index` adds new work orders to the full-text index of [the search]({search}), and counts work orders
  by state.
* `check_gaps` fails once for each gap in a trigger's sequence that is open longer than `alert_after` or parks more
  than `alert_above_parked`, and calls the notifiers that `notify` names. Its log contains what to do.
  [The work orders that wait]({parked}) have their own page.

Nothing of this is done while this Dag is paused.
"""

_METRICS_DOC = """
Sends the metrics to Airflow's stats every 15 s, from the triggerer. It exists where Airflow sends its own to StatsD or
OpenTelemetry. Prometheus and [the overview]({overview}) need no Dag; Prometheus reads `/workorders/metrics`.
"""
