"""The trigger's arguments: they lie in Airflow's database over upgrades."""

import json

from airflow._shared.module_loading import import_string
from airflow.triggers.base import BaseTrigger

from workorders.kafka.airflow.triggers import NewMessagesTrigger

ARGUMENTS = {
    "trigger_name": "orders",
    "topics": ["orders", "^orders-.*"],
    "kafka_connection": "kafka_a",
    "database_connection": "database_a",
    "poll_interval": 2.5,
    "min_messages": 10,
    "max_wait": 30.0,
    "rate_limit_per_second": 5.0,
    "max_messages": 500,
    "idle_after": 60.0,
    "alert_after": 600.0,
    "ingest_dag_id": "orders_ingest",
    "definition": {"name": "orders", "workflow": "ship"},
}


def test_it_can_be_created_from_what_it_serializes() -> None:
    path, arguments = NewMessagesTrigger(**ARGUMENTS).serialize()  # type: ignore[arg-type]
    assert arguments == ARGUMENTS
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    assert isinstance(again, BaseTrigger)
    assert again.serialize() == (path, arguments)


def test_it_is_made_from_the_arguments_of_another_version() -> None:
    older = NewMessagesTrigger(trigger_name="orders", topics=["orders"])
    assert older.serialize()[1]["kafka_connection"] == "kafka_default"
    assert older.serialize()[1]["ingest_dag_id"] is None
    assert older.serialize()[1]["definition"] is None
    newer = NewMessagesTrigger(**ARGUMENTS, threshold_of_a_later_version=7)  # type: ignore[arg-type]
    assert newer.serialize()[1] == ARGUMENTS
