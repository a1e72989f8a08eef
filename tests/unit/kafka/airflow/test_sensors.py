"""How the sensor defers to the triggerer."""

import inspect
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from support.definitions import define
from workorders.kafka.airflow.sensors import WaitForMessagesSensor
from workorders.kafka.airflow.triggers import NewMessagesTrigger

FIELDS: dict[str, Any] = {
    "topics": ["a", "^b.*"],
    "min_messages": 5,
    "max_wait": 30,
    "kafka_connection": "kafka_a",
    "rate_limit_per_second": 7,
}


def sensor(name: str = "orders", *, start_from_trigger: bool = True, **fields: Any) -> WaitForMessagesSensor:
    return WaitForMessagesSensor(
        task_id="wait",
        definition=define(name, **fields),
        idle_after=timedelta(minutes=5),
        start_from_trigger=start_from_trigger,
    )


def trigger_arguments(made: WaitForMessagesSensor) -> dict[str, Any]:
    arguments = made.start_trigger_args
    assert arguments is not None
    assert arguments.trigger_kwargs is not None
    return dict(arguments.trigger_kwargs)


def test_the_triggerer_can_make_the_trigger_from_its_arguments() -> None:
    arguments = trigger_arguments(sensor(**FIELDS))
    named = {
        name
        for name, parameter in inspect.signature(NewMessagesTrigger.__init__).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert set(arguments) <= named
    assert NewMessagesTrigger(**arguments).serialize()[1] == arguments
    assert arguments["idle_after"] == 300.0
    assert arguments["min_messages"] == 5


def test_a_worker_defers_to_the_same_trigger() -> None:
    made = sensor(start_from_trigger=False, **FIELDS)
    with pytest.raises(TaskDeferred) as deferred:
        made.execute({})
    assert deferred.value.trigger.serialize() == NewMessagesTrigger(**trigger_arguments(made)).serialize()


def test_two_sensors_share_no_arguments() -> None:
    first, second = sensor("first"), sensor("second")
    assert trigger_arguments(first)["topics"] == ["first"]
    assert trigger_arguments(second)["topics"] == ["second"]
    assert WaitForMessagesSensor.start_trigger_args is None


def test_a_mapped_sensor_starts_on_a_worker() -> None:
    # Airflow would defer a mapped one with the class's own arguments, which name no trigger.
    assert WaitForMessagesSensor.start_from_trigger is False


def test_what_is_rendered_in_the_triggerer_is_an_argument_of_the_trigger() -> None:
    assert set(WaitForMessagesSensor.template_fields) <= set(trigger_arguments(sensor()))
