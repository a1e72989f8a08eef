"""The Dags of an installation: forms to rerun, cancel, and export; pending jobs; retention; the index; metrics."""

from datetime import timedelta
from typing import Any, Final

from airflow.sdk import DAG

from workorders.airflow.dags.factories import continuous_dag, manual_dag, scheduled_dag
from workorders.airflow.operators.base import DatabaseOperator
from workorders.airflow.operators.bulk_jobs import RETRY_DELAY, BulkJobOperator, form
from workorders.airflow.operators.maintenance import (
    RecoverLostRunsOperator,
    RefreshHistoryOperator,
    ResumeBulkJobsOperator,
    RetentionOperator,
)
from workorders.airflow.page_links import page_path
from workorders.airflow.retries import unlimited_retries
from workorders.airflow.sensors.metrics import ReportMetricsSensor

_TAGS: Final = ["history", "workorders"]


def history_dags(database_connection: str = "workorders_db") -> dict[str, DAG]:
    """Return the Dags by id.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """
    forms = [_form_dag(kind, database_connection) for kind in ("rerun", "cancel", "export")]
    by_clock = [
        _jobs_dag(database_connection),
        _scheduled_dag(
            "workorders_retention",
            "@daily",
            "Erases old inputs, deletes old work orders by the retention of each workflow, and deletes old batches",
            RetentionOperator,
            task_id="delete_expired",
            database_connection=database_connection,
            retries=3,
            retry_delay=timedelta(minutes=5),
        ),
        _scheduled_dag(
            "workorders_search_index",
            "*/5 * * * *",
            "Adds new work orders to the full-text index, and counts work orders by state",
            RefreshHistoryOperator,
            task_id="refresh",
            database_connection=database_connection,
        ),
    ]
    return {dag.dag_id: dag for dag in [*forms, *by_clock, _metrics_dag(database_connection)]}


def _jobs_dag(database_connection: str) -> DAG:
    name = "workorders_jobs"
    description = "Runs pending reruns and cancels, and recovers lost runs"
    with scheduled_dag(name, "*/5 * * * *", description=description, **_about(name)) as dag:
        ResumeBulkJobsOperator(task_id="run_pending", database_connection=database_connection)
        RecoverLostRunsOperator(task_id="recover_lost_runs", database_connection=database_connection)
    return dag


def _metrics_dag(database_connection: str) -> DAG:
    name = "workorders_metrics"
    with continuous_dag(name, description="Sends the metrics to StatsD or OpenTelemetry", **_about(name)) as dag:
        ReportMetricsSensor(task_id="report_metrics", database_connection=database_connection, **unlimited_retries())
    return dag


def _form_dag(kind: str, database_connection: str) -> DAG:
    name = f"workorders_{kind}"
    with manual_dag(
        name,
        description=f"{kind.capitalize()}s work orders that match a filter",
        params=form(kind),
        **_about(name, _FORM_DOC),
    ) as dag:
        BulkJobOperator(
            task_id="run_job", kind=kind, database_connection=database_connection, retries=3, retry_delay=RETRY_DELAY
        )
    return dag


def _scheduled_dag(name: str, schedule: str, description: str, operator: type[DatabaseOperator], **task: Any) -> DAG:
    with scheduled_dag(name, schedule, description=description, **_about(name)) as dag:
        operator(**task)
    return dag


def _about(name: str, more: str = "") -> dict[str, Any]:
    """Return the name, the tags, and the text that Airflow shows of a Dag."""
    role = name.removeprefix("workorders_").replace("_", " ")
    pages = {"overview": page_path(), "search": page_path("work-orders"), "jobs": page_path("jobs")}
    text = (_DOCS[name] + more).format_map(pages)
    return {"dag_display_name": f"work orders: {role}", "tags": _TAGS, "doc_md": text}


_FORM_DOC = """
* With **dry run**, the default, the log contains how many work orders match, and nothing is changed.
* A work order must match all fields. One that is created after the job starts does not belong to the job.
* The job is a row with its progress and its error, if any: [the page of jobs]({jobs}), or
  `workorders jobs list`. A try after a crash continues it.
* [The page of work orders]({search}) does the same for those that you select.
"""

_DOCS = {
    "workorders_rerun": """
Gives work orders one more run: those of one id, or all that match.

* A work order that waits or runs is skipped, and so is one whose input was erased; the log counts both.
* A rejected work order is validated again by its trigger's current definition, and then gets its input and a run.
""",
    "workorders_cancel": """
Cancels runs that wait. A run that has started is not changed. A cancelled work order can be rerun.
""",
    "workorders_export": """
Writes work orders to a file of JSON Lines or CSV on the worker. The file has its name only when it is complete.
""",
    "workorders_jobs": """
Runs pending reruns and cancels: those created with `--detach`, those that wait for capacity in the limits of a
workflow, and orphaned jobs, whose process died. `workorders jobs resume` continues an export, on the machine where it
started. A second task recovers the lost runs of every workflow, also of one whose Dag is paused.

* [The page of jobs]({jobs}), or `workorders jobs list`, shows all jobs, their progress, and what they wait for.
* A job that fails makes the task fail, and is not retried.
* Nothing is done while this Dag is paused.
""",
    "workorders_retention": """
Erases inputs, outputs, and logs, and deletes work orders by the `retention` of each workflow, in small steps. Merges
old batches of triggers.

* `workorders retention run --dry-run` counts what is due. [The overview]({overview}) leads to the
  page of each workflow, which shows what is deleted when.
* A replay does not recreate a deleted work order.
* Nothing is deleted while this Dag is paused.
""",
    "workorders_metrics": """
Sends the metrics to Airflow's stats every 15 s, from the triggerer. Unpause it if Airflow sends its own to StatsD or
OpenTelemetry. Prometheus and [the overview]({overview}) need no Dag; Prometheus reads `/workorders/metrics`.
""",
    "workorders_search_index": """
Adds new work orders to the full-text index that `workorders work-orders list --text` searches, and counts work orders
by state. Unpause it to search for words, also on [the page of work orders]({search}). It never delays the ingest.
""",
}
