"""The trigger's arguments: they lie in Airflow's database over upgrades."""

import asyncio
import json
from typing import Any

from airflow._shared.module_loading import import_string
from airflow.triggers.base import BaseTrigger, TriggerEvent

from support.definitions import define
from workorders.airflow.triggers.polling import FAILED
from workorders.kafka.airflow.triggers import NewMessagesTrigger

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
