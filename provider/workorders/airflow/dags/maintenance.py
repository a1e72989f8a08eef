"""The Dags of an installation: its maintenance, and its metrics where Airflow sends its own."""

from typing import Final

from airflow.sdk import DAG, conf

from workorders import dag_ids
from workorders.airflow.dags.factories import continuous_dag, new_dag
from workorders.airflow.operators.maintenance import DUTIES, MaintenanceOperator
from workorders.airflow.page_links import page_path
from workorders.airflow.retries import unlimited_retries
from workorders.airflow.stats import ReportMetricsTrigger
from workorders.airflow.triggers.polling import PollingSensor
from workorders.core.environment import DATABASE_CONNECTION

_TAGS: Final = ["maintenance", "workorders"]
_LONG_DUTIES: Final = 16
"""Dag runs at a time. A duty may last for hours, so the next Dag run begins in spite of it; what it does already is not
done twice, because the database tells who does it."""
_STATS: Final = ("statsd_on", "statsd_datadog_enabled", "otel_on")


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
            MaintenanceOperator(task_id=duty, duty=duty, database_connection=database_connection, retries=0)
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
