"""The relay's sensor and task against real parts."""

import asyncio
import json
from typing import Any

import pytest
from airflow.triggers.base import TaskSkippedEvent, TaskSuccessEvent, TriggerEvent

from local_stack.stack import LocalStack
from support.outbox import Outbox, new_outbox
from support.topics import Topics
from support.tries import a_try
from workorders.airflow.retries import endless_retries
from workorders.kafka.airflow.outbox import DrainOutboxOperator, HeldMessagesError
from workorders.kafka.airflow.outbox_trigger import OutboxTrigger
from workorders.outbox import OutboxMessage

pytestmark = pytest.mark.integration

CONTEXT: Any = a_try()


@pytest.fixture
def outbox(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    made = new_outbox(stack)
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": dict(stack.kafka_settings)})
    )
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", made.database_url)
    return made


def drain(outbox: Outbox) -> DrainOutboxOperator:
    fields = outbox.definition.model_copy(update={"warm_for": 0.0}).model_dump(mode="json")
    return DrainOutboxOperator(task_id="drain", definition=fields, shard=0, **endless_retries())


def wait(idle_after: float) -> TriggerEvent:
    trigger = OutboxTrigger(database_connection="workorders_db", poll_interval=0.05, idle_after=idle_after)

    async def first() -> TriggerEvent:
        return await anext(aiter(trigger.run()))

    return asyncio.run(first())


def test_the_sensor_ends_when_something_waits_and_the_task_sends_it(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    assert isinstance(wait(0.2), TaskSkippedEvent)
    outbox.write(OutboxMessage(topic=name, key="k", value="1"))
    assert isinstance(wait(30), TaskSuccessEvent)
    assert drain(outbox).execute(CONTEXT) == {"messages": 1}
    assert outbox.values(name) == [b"1"]
    assert isinstance(wait(0.2), TaskSkippedEvent)


def test_a_refusal_fails_the_task_after_all_else_was_sent(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    missing = f"{name}-missing"
    outbox.write(*(OutboxMessage(topic=topic, key="k", value="1") for topic in (missing, name)))
    with pytest.raises(HeldMessagesError) as raised:
        drain(outbox).execute(CONTEXT)
    sentence = str(raised.value)
    assert sentence.startswith("Outbox, shard 0: 1 refusals; 1 messages were sent, and all others go on.")
    assert f"Topic {missing} takes no messages: the cluster has no such topic" in sentence
    assert sentence.endswith(" Next try in 1 s.")
    assert outbox.values(name) == [b"1"]
    # Held, it wakes nobody until its time has come.
    assert isinstance(wait(0.2), TaskSkippedEvent)
    assert drain(outbox).execute(CONTEXT) == {"messages": 0}
