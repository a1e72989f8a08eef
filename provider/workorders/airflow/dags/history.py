"""The Dags of an installation: forms to rerun, cancel, and export work orders; pending jobs; retention; the index."""

from datetime import timedelta

from airflow.sdk import DAG

from workorders.airflow.dags.factories import manual_dag, scheduled_dag
from workorders.airflow.operators.bulk_jobs import RETRY_DELAY, BulkJobOperator, form
from workorders.airflow.operators.maintenance import RefreshHistoryOperator, RetentionOperator
from workorders.airflow.operators.resume_bulk_jobs import ResumeBulkJobsOperator

_BULK_RETRIES = 3


def history_dags(database_connection: str = "workorders_db") -> dict[str, DAG]:
    """Return the Dags by id.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """
    dags = [
        *(_bulk_dag(kind, database_connection) for kind in ("rerun", "cancel", "export")),
        _jobs_dag(database_connection),
        _retention_dag(database_connection),
        _upkeep_dag(database_connection),
    ]
    return {dag.dag_id: dag for dag in dags}


def _bulk_dag(kind: str, database_connection: str) -> DAG:
    with manual_dag(
        f"workorders_{kind}",
        description=f"{kind.capitalize()}s work orders that match a filter",
        params=form(kind),
        tags=["history", "workorders"],
        doc_md=_DOCS[kind],
    ) as dag:
        BulkJobOperator(
            task_id="run_job",
            kind=kind,
            database_connection=database_connection,
            retries=_BULK_RETRIES,
            retry_delay=RETRY_DELAY,
        )
    return dag


def _jobs_dag(database_connection: str) -> DAG:
    with scheduled_dag(
        "workorders_jobs",
        "*/5 * * * *",
        description="Runs pending reruns and cancels",
        tags=["history", "workorders"],
        doc_md=_JOBS_DOC,
    ) as dag:
        ResumeBulkJobsOperator(task_id="run_pending", database_connection=database_connection)
    return dag


def _retention_dag(database_connection: str) -> DAG:
    with scheduled_dag(
        "workorders_retention",
        "@daily",
        description="Wipes old inputs and deletes old work orders by the retention of each workflow",
        tags=["history", "workorders"],
        doc_md=_RETENTION_DOC,
    ) as dag:
        RetentionOperator(
            task_id="delete_expired",
            database_connection=database_connection,
            retries=3,
            retry_delay=timedelta(minutes=5),
        )
    return dag


def _upkeep_dag(database_connection: str) -> DAG:
    with scheduled_dag(
        "workorders_search_index",
        "*/5 * * * *",
        description="Adds new work orders to the full-text index, and counts work orders by state",
        tags=["history", "workorders"],
        doc_md=_UPKEEP_DOC,
    ) as dag:
        RefreshHistoryOperator(task_id="refresh", database_connection=database_connection)
    return dag


_FORM_DOC = """
* With **dry run**, the default, the log contains how many work orders match, and nothing is changed.
* A work order must match all fields. One that is created after the job starts does not belong to the job.
* The job is a row with its progress and its error, if any: `workorders jobs list`. A try after a crash continues it.
"""

_DOCS = {
    "rerun": f"""
Gives work orders one more run: those of one id, or all that match.

* A work order that waits or runs is skipped, and one whose input was wiped is refused; both are counted.
* A rejected work order is validated again by its trigger's current definition, and then gets its input and a run.
{_FORM_DOC}""",
    "cancel": f"""
Cancels runs that wait. A run that has started is not changed. A cancelled work order can be rerun.
{_FORM_DOC}""",
    "export": f"""
Writes work orders to a file of JSON Lines or CSV on the worker. The file has its name only when it is complete.
{_FORM_DOC}""",
}

_JOBS_DOC = """
Runs pending reruns and cancels: those created with `--detach`, those that wait for capacity in the limits of a
workflow, and orphaned jobs, whose process died. `workorders jobs resume` continues an export, on the machine where it
started.

* `workorders jobs list` shows all jobs, their progress, and what they wait for.
* A job that fails makes the task fail, and is not retried.
* Nothing is done while this Dag is paused.
"""

_RETENTION_DOC = """
Wipes inputs, outputs, and logs, and deletes work orders by the `retention` of each workflow, in small steps.

* `workorders retention run --dry-run` counts what is due.
* A replay does not recreate a deleted work order.
* Nothing is deleted while this Dag is paused.
"""

_UPKEEP_DOC = """
Adds new work orders to the full-text index that `workorders work-orders list --text` searches, and counts work orders
by state. Unpause it to search. It never delays the ingest.
"""
