"""The shape of the relay's DAG."""

import json
from pathlib import Path
from typing import Any

from airflow.sdk import DAG
from airflow.serialization.serialized_objects import BaseSerialization, DagSerialization

from workorders.airflow.retries import ENDLESS_RETRIES
from workorders.kafka.airflow.outbox import HeldMessagesError, RelayRetries, outbox_dags
from workorders.kafka.airflow.outbox_trigger import OutboxTrigger


def relay(tmp_path: Path, text: str = "") -> DAG:
    file = tmp_path / "outbox.yaml"
    file.write_text(text, encoding="utf-8")
    (dag,) = outbox_dags(file).values()
    return dag


def test_the_relay_waits_then_drains_every_shard_without_end(tmp_path: Path) -> None:
    dag = relay(tmp_path, "shards: 3\n")
    assert (dag.dag_id, dag.max_active_runs) == ("outbox_relay", 1)
    assert {task_id: task.downstream_task_ids for task_id, task in dag.task_dict.items()} == {
        "wait_for_messages": {"drain"},
        "drain": set(),
    }
    drain: Any = dag.task_dict["drain"]
    assert drain.expand_input.value == {"shard": [0, 1, 2]}
    assert drain.partial_kwargs["retries"] == ENDLESS_RETRIES


def test_a_relay_without_a_file_has_every_default(tmp_path: Path) -> None:
    (dag,) = outbox_dags(tmp_path / "none.yaml").values()
    assert dag.dag_id == "outbox_relay"


def test_the_relay_survives_its_serialization_and_its_sensor_starts_in_the_triggerer(tmp_path: Path) -> None:
    again = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(relay(tmp_path)))))
    sensor: Any = again.task_dict["wait_for_messages"]
    assert sensor.start_from_trigger is True
    arguments = BaseSerialization.deserialize(sensor.start_trigger_args.trigger_kwargs)
    assert OutboxTrigger(**arguments).serialize()[1] == arguments


def test_after_a_refusal_the_next_try_begins_at_once_and_after_other_failures_later_each_time() -> None:
    policy = RelayRetries()

    def delay(error: Exception) -> float:
        decision = policy.evaluate(error, 6, ENDLESS_RETRIES)
        assert decision.retry_delay is not None
        return decision.retry_delay.total_seconds()

    assert delay(HeldMessagesError("refused")) == 1
    assert delay(RuntimeError("away")) == 32


def test_a_mistake_in_the_file_gives_a_dag_that_says_which_field(tmp_path: Path) -> None:
    dag = relay(tmp_path, "mode: exactly-once\nshards: 17\n")
    assert dag.dag_id == "outbox_refused"
    assert "outbox.yaml: shards:" in (dag.doc_md or "")
