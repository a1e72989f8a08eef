"""The shape of a trigger's two Dags."""

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.timetables.simple import NullTimetable
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import BaseSerialization, DagSerialization

from support.definitions import define
from workorders import dag_ids
from workorders.airflow.retries import UNLIMITED_RETRIES, UnlimitedRetryPolicy
from workorders.kafka.airflow.dags import make_dags
from workorders.kafka.airflow.resolve import _resolve_dag, resolve_dags
from workorders.kafka.airflow.triggers import NewMessagesTrigger
from workorders.kafka.definition.trigger import KafkaTriggerDefinition


def dags(**fields: Any) -> tuple[DAG, DAG]:
    made = make_dags(define("orders", **fields))
    return made[0], made[1]


def test_the_listener_waits_then_plans_without_end() -> None:
    listener, _ = dags()
    assert listener.dag_id == "orders_listener"
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
    _, ingest = dags(active_batches=2)
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


def test_a_trigger_may_name_settings_of_spark() -> None:
    _, ingest = dags(spark={"driver_memory": "2g", "conf": {"spark.sql.shuffle.partitions": "1"}})
    create: Any = ingest.task_dict["create_work_orders"]
    assert create._driver_memory == "2g"
    assert create.conf["spark.sql.shuffle.partitions"] == "1"


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
    assert NewMessagesTrigger(**arguments).trigger_name == "orders"
    # Without it, a batch whose run was deleted would wait for the next message.
    assert NewMessagesTrigger(**arguments).ingest_dag_id == "orders_ingest"


def resolving(*definitions: KafkaTriggerDefinition) -> DAG:
    return _resolve_dag(list(definitions) or [define("orders")])


def test_the_resolve_dag_runs_when_a_person_asks_for_it_and_at_no_other_time() -> None:
    dag = resolving()
    assert dag.dag_id == "workorders_resolve"
    assert isinstance(dag.timetable, NullTimetable)
    assert dag.is_paused_upon_creation is False
    (task,) = dag.tasks
    assert (task.task_id, task.owner, task.retries) == ("apply_decision", "airflow", 0)
    assert dag.tags == {"workorders", "kafka", "resolve"}


def test_the_form_begins_as_a_dry_run_and_needs_a_reason() -> None:
    params = resolving().params
    assert params["dry_run"] is True
    with pytest.raises(ParamValidationError, match="reason"):
        params.validate()
    with pytest.raises(ParamValidationError):
        params["reason"] = ""
    params["reason"] = "retention was an hour"
    assert params.validate()["decision"] == "skip-lost"


@pytest.mark.parametrize(
    ("field", "value"), [("trigger", "other"), ("decision", "skip"), ("topic", "other"), ("partitions", [-1])]
)
def test_the_form_takes_nothing_that_means_nothing(field: str, value: object) -> None:
    params = resolving().params
    params["reason"] = "a reason"
    with pytest.raises(ParamValidationError):
        params[field] = value


def test_a_trigger_of_a_pattern_takes_any_topic_in_the_form() -> None:
    params = resolving(define("orders", topics=["orders", "^orders[.]"])).params
    params["topic"] = "orders.north"
    assert params["topic"] == "orders.north"


def test_the_form_survives_the_dags_serialization() -> None:
    again = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(resolving()))))
    assert set(again.params) == {"trigger", "decision", "topic", "partitions", "offset", "time", "reason", "dry_run"}


def test_a_run_is_named_after_its_batch() -> None:
    assert dag_ids.batch(17) == "batch_17"


def test_one_form_serves_all_kafka_triggers_of_a_folder_and_selects_none_by_itself(tmp_path: Path) -> None:
    for name in ("orders", "returns"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\ntype: kafka\nworkflow: ship\ntopics: [shop.{name}]\n")
    (tmp_path / "nightly.yaml").write_text("name: nightly\ntype: cron\nworkflow: ship\nschedule: '@daily'\n")
    (tmp_path / "mistaken.yaml").write_text("name: mistaken\ntype: kafka\n")
    dags = resolve_dags(tmp_path)
    assert set(dags) == {"workorders_resolve"}
    params = dags["workorders_resolve"].params
    params["reason"] = "a reason"
    params["topic"] = "shop.returns"
    with pytest.raises(ParamValidationError, match="trigger"):
        params.validate()
    params["trigger"] = "returns"
    assert params.validate()["trigger"] == "returns"


def test_a_folder_without_a_kafka_trigger_has_no_such_form(tmp_path: Path) -> None:
    assert resolve_dags(tmp_path) == {}
