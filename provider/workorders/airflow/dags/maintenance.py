"""The Dag of an installation: its maintenance."""

from typing import Final

from airflow.sdk import DAG

from workorders import dag_ids
from workorders.airflow.dags.factories import new_dag
from workorders.airflow.operators.maintenance import DUTIES, MaintenanceOperator
from workorders.airflow.page_links import page_path

_LONG_DUTIES: Final = 16
"""Dag runs at a time. A duty may last for hours, so the next Dag run begins in spite of it; what it does already is not
done twice, because the database tells who does it."""


def maintenance_dags(database_connection: str = "workorders_db") -> dict[str, DAG]:
    """Return the Dag by its id."""
    with new_dag(
        dag_ids.MAINTENANCE,
        schedule="*/5 * * * *",
        catchup=False,
        max_active_runs=_LONG_DUTIES,
        description="Does what is due: bulk operations, lost runs, retention, and the search index",
        tags=["maintenance", "workorders"],
        doc_md=_MAINTENANCE_DOC.format(
            overview=page_path(),
            search=page_path("work-orders"),
            jobs=page_path("bulk"),
        ),
    ) as dag:
        # Nothing depends on another, so one that fails stops none. The next Dag run is the retry.
        for duty in DUTIES:
            MaintenanceOperator(task_id=duty, duty=duty, database_connection=database_connection, retries=0)
    return {dag.dag_id: dag}


_MAINTENANCE_DOC = """
Does for the whole database what is due. Each task is one duty:

* `run_bulk_jobs` runs pending reruns and cancels: those created with `--detach`, and orphaned ones, whose process
  died. [The page of bulk operations]({jobs}), or `workorders bulk list`, shows them. One that fails makes the task
  fail, and is not retried.
* `recover_lost_runs` recovers the lost runs of every workflow, also of one whose Dag is paused.
* `delete_expired` erases inputs, outputs, and logs, and deletes work orders by the `retention` of each workflow, once
  per day. It also deletes the rows of old batches.
  [The overview]({overview}) leads to the page of each workflow, which shows what is deleted when.
* `refresh_search_index` adds new work orders to the full-text index of [the search]({search}), and counts work orders
  by state.

Nothing of this is done while this Dag is paused.
"""
