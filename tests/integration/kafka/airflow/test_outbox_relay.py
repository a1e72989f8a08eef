"""The relay's sensor and task against real parts."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from airflow.triggers.base import TaskSkippedEvent, TaskSuccessEvent, TriggerEvent

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.outbox import Outbox, new_outbox
from support.topics import Topics
from support.tries import a_try
from workorders.airflow.retries import unlimited_retries
from workorders.airflow.task_errors import TaskFailedError
from workorders.kafka.airflow.outbox_relay import HeldMessagesError, OutboxTrigger, SendMessagesOperator
from workorders.outbox import OutboxMessage
from workorders.outbox.relay.relay import run_relay
from workorders.outbox.store.leases import buckets_of

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


def send(outbox: Outbox, shard: int = 0, **changes: Any) -> SendMessagesOperator:
    definition = outbox.definition.model_copy(update=changes)
    return SendMessagesOperator(task_id="send_messages", definition=definition, shard=shard, **unlimited_retries())


def wait(idle_after: float, shard: int = 0, shards: int = 1) -> TriggerEvent:
    trigger = OutboxTrigger(database_connection="workorders_db", buckets=buckets_of(shard, shards))
    trigger.poll_interval, trigger.idle_after = 0.05, idle_after

    async def first() -> TriggerEvent:
        return await anext(aiter(trigger.run()))

    return asyncio.run(first())


def test_the_sensor_ends_when_something_waits_and_the_task_sends_it(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    assert isinstance(wait(0.2), TaskSkippedEvent)
    outbox.write(OutboxMessage(topic=name, key="k", value="1"))
    assert isinstance(wait(30), TaskSuccessEvent)
    assert send(outbox).execute(CONTEXT) == {"messages": 1}
    assert outbox.values(name) == [b"1"]
    assert isinstance(wait(0.2), TaskSkippedEvent)


def test_a_refusal_fails_the_task_after_all_else_was_sent(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    missing = f"{name}-missing"
    outbox.write(*(OutboxMessage(topic=topic, key="k", value="1") for topic in (missing, name)))
    with pytest.raises(HeldMessagesError) as raised:
        send(outbox).execute(CONTEXT)
    sentence = str(raised.value)
    assert sentence.startswith("Outbox, shard 0: 1 refusals; 1 messages were sent, and what was refused is held; ")
    assert f"Topic {missing} takes no messages: the cluster has no such topic" in sentence
    assert sentence.endswith(" Next try in 1 s. [WO-OUTBOX-HELD]")
    assert outbox.values(name) == [b"1"]
    # Held, it wakes no sensor until its time has come.
    assert isinstance(wait(0.2), TaskSkippedEvent)
    assert send(outbox).execute(CONTEXT) == {"messages": 0}


def test_a_shard_that_is_busy_or_stalled_keeps_no_other_from_waiting_and_sending(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    """Each shard has its own Dag, whose parts are run here as Airflow runs them."""
    topics.create(name)
    of_shard = keys_by_shard(outbox, name)
    outbox.write(OutboxMessage(topic=name, key=of_shard[0], value="first"))
    ended, two = Event(), outbox.definition.model_copy(update={"shards": 2, "linger": 3600.0})
    with ThreadPoolExecutor(1) as worker:
        busy = worker.submit(run_relay, outbox.connections, two, shard=0, stopped=ended.is_set)
        try:
            eventually(lambda: outbox.values(name), seconds=60, what="The first message")
            assert isinstance(wait(0.2, 1, 2), TaskSkippedEvent)
            for n in range(3):
                outbox.write(OutboxMessage(topic=name, key=of_shard[1], value=str(n)))
                assert isinstance(wait(30, 1, 2), TaskSuccessEvent)
                assert send(outbox, 1, shards=2).execute(CONTEXT) == {"messages": 1}
            assert not busy.done()
        finally:
            ended.set()
        busy.result(60)
    outbox.ask("UPDATE workorders.outbox_shards SET checkpoint_batch = 7000 WHERE shard = 0")
    outbox.write(OutboxMessage(topic=name, key=of_shard[0], value="waits"))
    outbox.ask("INSERT INTO workorders.outbox_claims VALUES (0, 7001, %s, 0, ARRAY[1])", name)
    assert isinstance(wait(0.2, 1, 2), TaskSkippedEvent)
    outbox.write(OutboxMessage(topic=name, key=of_shard[1], value="sent"))
    with pytest.raises(TaskFailedError, match=r"^Outbox, shard 0: Shard 0 of the outbox is stalled"):
        send(outbox, 0, shards=2).execute(CONTEXT)
    assert send(outbox, 1, shards=2).execute(CONTEXT) == {"messages": 1}
    assert b"sent" in outbox.values(name)
    assert b"waits" not in outbox.values(name)


def keys_by_shard(outbox: Outbox, topic: str) -> list[str]:
    """Return a key of each of two shards."""
    found = outbox.ask(
        """
        SELECT min(made.key) FROM (SELECT 'k' || number AS key FROM generate_series(1, 50) AS number) AS made
        GROUP BY get_byte(workorders.outbox_hash(%s, convert_to(made.key, 'UTF8')), 4) & 1
        ORDER BY get_byte(workorders.outbox_hash(%s, convert_to(min(made.key), 'UTF8')), 4) & 1
        """,
        topic,
        topic,
    )
    return [row[0] for row in found]
