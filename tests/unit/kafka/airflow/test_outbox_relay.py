"""The shape of the relay's Dag."""

import json
from pathlib import Path
from typing import Any

from airflow.sdk import DAG
from airflow.serialization.serialized_objects import BaseSerialization, DagSerialization

from workorders.airflow.retries import UNLIMITED_RETRIES, UnlimitedRetryPolicy
from workorders.kafka.airflow.outbox_relay import HeldMessagesError, OutboxTrigger, outbox_dags
from workorders.outbox.store.leases import BUCKETS


def relays(tmp_path: Path, text: str = "") -> dict[str, DAG]:
    file = tmp_path / "outbox.yaml"
    file.write_text(text, encoding="utf-8")
    return outbox_dags(file)


def relay(tmp_path: Path, text: str = "") -> DAG:
    (dag,) = relays(tmp_path, text).values()
    return dag


def test_each_shard_waits_and_is_drained_without_end_in_a_dag_of_its_own(tmp_path: Path) -> None:
    dags = relays(tmp_path, "shards: 3\n")
    assert list(dags) == ["workorders_outbox_0", "workorders_outbox_1", "workorders_outbox_2"]
    waited: list[int] = []
    for shard, dag in enumerate(dags.values()):
        assert (dag.max_active_runs, dag.is_paused_upon_creation) == (1, False)
        assert {task_id: task.downstream_task_ids for task_id, task in dag.task_dict.items()} == {
            "wait_for_outbox": {"send_messages"},
            "send_messages": set(),
        }
        send: Any = dag.task_dict["send_messages"]
        assert (send.shard, send.retries, type(send.retry_policy)) == (shard, UNLIMITED_RETRIES, UnlimitedRetryPolicy)
        wait: Any = dag.task_dict["wait_for_outbox"]
        waited += wait.start_trigger_args.trigger_kwargs["buckets"]
    assert sorted(waited) == list(range(BUCKETS))


def test_a_relay_without_a_file_has_every_default(tmp_path: Path) -> None:
    (dag,) = outbox_dags(tmp_path / "none.yaml").values()
    assert dag.dag_id == "workorders_outbox_0"


def test_the_relay_survives_its_serialization_and_its_sensor_starts_in_the_triggerer(tmp_path: Path) -> None:
    again = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(relay(tmp_path)))))
    sensor: Any = again.task_dict["wait_for_outbox"]
    assert sensor.start_from_trigger is True
    arguments = BaseSerialization.deserialize(sensor.start_trigger_args.trigger_kwargs)
    assert OutboxTrigger(**arguments).serialize()[1] == arguments


def test_after_a_refusal_the_next_try_begins_at_once_and_after_other_failures_later_each_time() -> None:
    policy = UnlimitedRetryPolicy()

    def delay(error: Exception) -> float:
        decision = policy.evaluate(error, 6, UNLIMITED_RETRIES)
        assert decision.retry_delay is not None
        return decision.retry_delay.total_seconds()

    assert delay(HeldMessagesError("refused")) == 1
    assert delay(RuntimeError("away")) == 32


def test_a_mistake_in_the_file_gives_a_dag_that_names_the_field(tmp_path: Path) -> None:
    dag = relay(tmp_path, "shards: 17\n")
    assert (dag.dag_id, dag.task_ids) == ("outbox_refused", ["read_outbox_file"])
    assert "outbox.yaml, line 1: shards:" in (dag.doc_md or "")
