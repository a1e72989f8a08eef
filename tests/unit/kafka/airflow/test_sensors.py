"""How the sensor defers to the triggerer."""

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from support.definitions import define
from workorders.kafka.airflow.sensors import WaitForMessagesSensor
from workorders.kafka.airflow.triggers import NewMessagesTrigger


def sensor(name: str = "orders", *, start_from_trigger: bool = True) -> WaitForMessagesSensor:
    return WaitForMessagesSensor(
        task_id="wait",
        definition=define(name),
        idle_after=timedelta(minutes=5),
        start_from_trigger=start_from_trigger,
    )


def trigger_arguments(made: WaitForMessagesSensor) -> dict[str, Any]:
    arguments = made.start_trigger_args
    assert arguments is not None
    assert arguments.trigger_kwargs is not None
    return dict(arguments.trigger_kwargs)


def test_a_worker_defers_to_the_trigger_that_the_triggerer_makes() -> None:
    made = sensor(start_from_trigger=False)
    with pytest.raises(TaskDeferred) as deferred:
        made.execute({})
    arguments = trigger_arguments(made)
    assert deferred.value.trigger.serialize()[1] == NewMessagesTrigger(**arguments).serialize()[1] == arguments
    assert arguments["idle_after"] == 300.0


def test_two_sensors_share_no_arguments() -> None:
    first, second = sensor("first"), sensor("second")
    assert trigger_arguments(first)["definition"]["topics"] == ["first"]
    assert trigger_arguments(second)["definition"]["topics"] == ["second"]
    assert WaitForMessagesSensor.start_trigger_args is None


def test_a_mapped_sensor_starts_on_a_worker() -> None:
    # Airflow would defer a mapped one with the class's own arguments, which name no trigger.
    assert WaitForMessagesSensor.start_from_trigger is False
