"""The DAGs of history: forms to rerun, cancel and export work orders, jobs that were left, retention, and upkeep."""

from datetime import timedelta

from airflow.sdk import DAG

from workorders.airflow.dags.factories import by_clock, by_hand
from workorders.airflow.operators.bulk_jobs import RETRY_DELAY, BulkJobOperator, form
from workorders.airflow.operators.maintenance import RetentionOperator, UpkeepOperator
from workorders.airflow.operators.resume_bulk_jobs import LeftJobsOperator

_BULK_RETRIES = 3


def history_dags(database_connection: str = "workorders_db") -> dict[str, DAG]:
    """Return the DAGs by id.

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
    with by_hand(
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
    with by_clock(
        "workorders_jobs",
        "*/5 * * * *",
        description="Works through reruns and cancels that nobody works at",
        tags=["history", "workorders"],
        doc_md=_JOBS_DOC,
    ) as dag:
        LeftJobsOperator(task_id="run_pending", database_connection=database_connection)
    return dag


def _retention_dag(database_connection: str) -> DAG:
    with by_clock(
        "workorders_retention",
        "@daily",
        description="Wipes old inputs and deletes old work orders, as each workflow's retention says",
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
    with by_clock(
        "workorders_search_index",
        "*/5 * * * *",
        description="Adds the words of new work orders to the full text, and counts by state",
        tags=["history", "workorders"],
        doc_md=_UPKEEP_DOC,
    ) as dag:
        UpkeepOperator(task_id="refresh", database_connection=database_connection)
    return dag


_FORM_DOC = """
* With **dry run**, which the form begins with, the log says how many work orders match, and nothing is changed.
* All fields given must hold. What is created after the job begins does not belong to it.
* The job is a row with its progress and its error, if any: `workorders jobs list`. A try after a crash goes on where
  it stood.
"""

_DOCS = {
    "rerun": f"""
Gives work orders one more run: those of one id, or all that match.

* What waits or runs is skipped, and what was wiped is refused; both are counted.
* A rejected work order is judged again by its trigger's definition of now, and then gets its input and a run.
{_FORM_DOC}""",
    "cancel": f"""
Cancels runs that wait. What runs already is not touched; what was cancelled can be rerun.
{_FORM_DOC}""",
    "export": f"""
Writes work orders to a file of JSON Lines or CSV on the worker, which appears under its name when it is whole.
{_FORM_DOC}""",
}

_JOBS_DOC = """
Works through reruns and cancels of work orders that nobody works at: those written down with `--later`, those that wait
for room in the limits of a workflow, and those whose process died. Exports wait for `workorders jobs resume` on the
machine of who asked.

* `workorders jobs list` shows all jobs, how far they are, and what they wait for.
* A job that fails is a red task here, and waits for a person.
* Unpause this DAG to have it done.
"""

_RETENTION_DOC = """
Wipes inputs, outputs and logs, and deletes work orders, as the `retention` of each workflow says, in small steps.

* `workorders retention run --dry-run` counts what is due.
* A message whose work order was deleted does not come back as new, also in a replay.
* Unpause this DAG to have it done; while it is paused, everything is kept.
"""

_UPKEEP_DOC = """
Adds the words of new work orders to the full text that `workorders work-orders list --text` searches, and counts work
orders by state. Unpause it to search; the ingest is never held up by it.
"""
