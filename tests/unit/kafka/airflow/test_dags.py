"""The shape of a trigger's two Dags."""

import json
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.timetables.simple import NullTimetable
from airflow.serialization.serialized_objects import BaseSerialization, DagSerialization

from support.definitions import define
from workorders.airflow.retries import UNLIMITED_RETRIES, UnlimitedRetryPolicy
from workorders.kafka.airflow.dags import make_dags
from workorders.kafka.airflow.triggers import NewMessagesTrigger
from workorders.kafka.definition.trigger import KafkaTriggerDefinition


def dags(**fields: Any) -> tuple[DAG, DAG]:
    made = make_dags(define("orders", **fields))
    return made[0], made[1]


def test_the_listener_waits_then_plans_without_end() -> None:
    listener, _ = dags()
    assert listener.dag_id == "orders_listener"
    assert listener.is_paused_upon_creation is True
    assert listener.max_active_runs == 1
    assert {task_id: task.downstream_task_ids for task_id, task in listener.task_dict.items()} == {
        "wait_for_messages": {"plan_batch"},
        "plan_batch": set(),
    }


def test_the_ingest_creates_then_commits_and_runs_on_request_only() -> None:
    _, ingest = dags()
    assert ingest.dag_id == "orders_ingest"
    assert isinstance(ingest.timetable, NullTimetable)
    assert {task_id: task.downstream_task_ids for task_id, task in ingest.task_dict.items()} == {
        "create_work_orders": {"commit_offsets"},
        "commit_offsets": set(),
    }


def test_stalled_batches_do_not_use_up_the_runs_of_the_others() -> None:
    _, ingest = dags(max_active_batches=2)
    assert ingest.max_active_runs > 10_000
    assert ingest.task_dict["create_work_orders"].max_active_tis_per_dag == 2


@pytest.mark.parametrize("place", [0, 1])
def test_every_task_is_retried_without_end(place: int) -> None:
    task: Any
    for task in dags()[place].tasks:
        assert task.retries == UNLIMITED_RETRIES
        assert isinstance(task.retry_policy, UnlimitedRetryPolicy)


@pytest.mark.parametrize("place", [0, 1])
def test_a_dag_has_owner_tags_and_a_document(place: int) -> None:
    dag = dags(owner="clinic", tags=["night"])[place]
    assert {"workorders", "kafka", "night"} <= dag.tags
    assert {task.owner for task in dag.tasks} == {"clinic"}
    assert "orders" in (dag.doc_md or "")


TASK_SETTINGS = {
    "pool": "small",
    "queue": "night",
    "executor": "CeleryExecutor",
    "executor_config": {"pod_template_file": "small.yaml"},
    "priority_weight": 7,
}


@pytest.mark.parametrize("task_id", KafkaTriggerDefinition.task_ids)
def test_each_task_has_the_settings_that_the_trigger_gives_it_and_no_other_task_has_them(task_id: str) -> None:
    listener, ingest = dags(tasks={task_id: TASK_SETTINGS})
    for task in [*listener.tasks, *ingest.tasks]:
        found = {name: getattr(task, name) for name in TASK_SETTINGS}
        assert (found == TASK_SETTINGS) is (task.task_id == task_id)


@pytest.mark.parametrize("place", [0, 1])
def test_a_retry_uses_the_current_trigger_file_also_in_a_versioned_bundle(place: int) -> None:
    assert dags()[place].disable_bundle_versioning


@pytest.mark.parametrize("place", [0, 1])
def test_a_dag_survives_its_serialization(place: int) -> None:
    serialized = json.loads(json.dumps(DagSerialization.to_dict(dags()[place])))
    again = DagSerialization.from_dict(serialized)
    assert {task.task_id for task in again.tasks} == set(dags()[place].task_dict)


def test_the_scheduler_defers_the_sensor_straight_to_the_triggerer() -> None:
    listener, _ = dags()
    # What the scheduler has of a Dag is its serialization.
    sensor: Any = DagSerialization.from_dict(DagSerialization.to_dict(listener)).task_dict["wait_for_messages"]
    assert sensor.start_from_trigger is True
    arguments = BaseSerialization.deserialize(sensor.start_trigger_args.trigger_kwargs)
    assert NewMessagesTrigger(**arguments).definition["name"] == "orders"
    # Without it, a batch whose run was deleted would wait for the next message.
    assert NewMessagesTrigger(**arguments).ingest_dag_id == "orders_ingest"
