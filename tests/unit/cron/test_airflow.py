from typing import Any

import pytest
from airflow.serialization.serialized_objects import DagSerialization

from workorders.airflow.retries import UNLIMITED_RETRIES
from workorders.core.exceptions import ConfigurationError
from workorders.cron.airflow import make_dags
from workorders.cron.definition import CronTriggerDefinition


def define(**fields: Any) -> CronTriggerDefinition:
    return CronTriggerDefinition.model_validate(
        {"name": "nightly", "workflow": "ship", "schedule": "30 2 * * *", "timezone": "Europe/Berlin", **fields}
    )


def test_a_schedule_is_one_dag_with_one_task_that_is_retried_without_end() -> None:
    (dag,) = make_dags(define(tags=["own"]))
    assert (dag.dag_id, dag.catchup, dag.max_active_runs) == ("nightly_cron", False, 1)
    assert dag.is_paused_upon_creation is True
    assert dag.tags == {"workorders", "cron", "nightly", "own"}
    assert {task_id: task.retries for task_id, task in dag.task_dict.items()} == {
        "create_work_order": UNLIMITED_RETRIES
    }
    assert dag.doc_md is not None
    assert "ship" in dag.doc_md


def test_the_timetable_keeps_its_time_zone_through_the_database() -> None:
    (dag,) = make_dags(define())
    timetable = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
    assert (timetable.summary, str(timetable._timezone.name)) == ("30 2 * * *", "Europe/Berlin")  # type: ignore[attr-defined]


def test_what_is_no_cron_expression_is_refused_with_the_field() -> None:
    with pytest.raises(
        ConfigurationError, match=r"Trigger nightly: schedule: '61 2 \* \* \*' is not a cron expression"
    ):
        make_dags(define(schedule="61 2 * * *"))
