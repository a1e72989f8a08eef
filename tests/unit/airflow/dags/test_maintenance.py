"""The shape of the Dags of an installation."""

from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from workorders.airflow.dags.maintenance import maintenance_dags


@pytest.fixture
def dag(monkeypatch: pytest.MonkeyPatch) -> DAG:
    for name in ("STATSD_ON", "STATSD_DATADOG_ENABLED", "OTEL_ON"):
        monkeypatch.delenv(f"AIRFLOW__METRICS__{name}", raising=False)
    (found,) = maintenance_dags("another_db").values()
    return found


def test_an_installation_has_one_dag_and_each_of_its_tasks_is_a_duty_that_waits_for_no_other(dag: DAG) -> None:
    assert dag.dag_id == "workorders_maintenance"
    assert {task_id: task.downstream_task_ids for task_id, task in dag.task_dict.items()} == {
        "run_bulk_jobs": set(),
        "recover_lost_runs": set(),
        "delete_expired": set(),
        "delete_expired_steps": set(),
        "refresh_search_index": set(),
        "check_gaps": set(),
    }
    tasks: list[Any] = dag.tasks
    assert {task.database_connection for task in tasks} == {"another_db"}


def test_a_duty_that_lasts_for_hours_does_not_delay_the_next_dag_run_and_missed_ones_are_not_caught_up(
    dag: DAG,
) -> None:
    assert dag.max_active_runs > 1
    assert dag.catchup is False
    assert dag.is_paused_upon_creation is False


@pytest.mark.parametrize("setting", ["STATSD_ON", "STATSD_DATADOG_ENABLED", "OTEL_ON"])
def test_the_metrics_have_a_dag_where_airflow_sends_its_own(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"AIRFLOW__METRICS__{setting}", "True")
    metrics = maintenance_dags()["workorders_metrics"]
    assert (metrics.is_paused_upon_creation, metrics.task_ids) == (False, ["report_metrics"])
    assert DagSerialization.to_dict(metrics)["dag"]["dag_id"] == metrics.dag_id


def test_the_dag_survives_serialization(dag: DAG) -> None:
    assert DagSerialization.to_dict(dag)["dag"]["dag_id"] == dag.dag_id
