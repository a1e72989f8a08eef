"""The trigger's arguments: they lie in Airflow's database over upgrades."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.sdk.exceptions import TaskDeferred
from airflow.triggers.base import BaseTrigger, TriggerEvent

from support.definitions import define
from workorders.airflow.triggers.polling import FAILED
from workorders.kafka.airflow.triggers import NewMessagesTrigger, WaitForMessagesSensor

DEFINITION = define("orders").model_dump(mode="json")
ARGUMENTS: dict[str, Any] = {"definition": DEFINITION, "ingest_dag_id": "orders_ingest", "idle_after": 60.0}


def test_it_can_be_created_from_what_it_serializes() -> None:
    path, arguments = NewMessagesTrigger(**ARGUMENTS).serialize()
    assert arguments == ARGUMENTS
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    assert isinstance(again, BaseTrigger)
    assert again.serialize() == (path, arguments)


def test_the_definition_of_another_version_fails_the_wait_and_not_the_making_of_the_trigger() -> None:
    later: dict[str, Any] = {**DEFINITION, "field_of_a_later_version": 7}
    trigger = NewMessagesTrigger(definition=later, argument_of_a_later_version=7)

    async def first() -> TriggerEvent:
        return await anext(aiter(trigger.run()))

    sentence = asyncio.run(first()).payload[FAILED]
    assert sentence.startswith("Trigger orders: its definition: field_of_a_later_version: ")


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
