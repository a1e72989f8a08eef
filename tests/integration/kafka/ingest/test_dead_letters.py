"""Dead letters from a real topic, through ingest, outbox, and relay, to another real topic: each one once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from confluent_kafka import Message

from local_stack.stack import LocalStack
from support.consumed import consumed
from support.in_process_trigger import InProcessTrigger
from support.ingesting import attempt, no_proof, partition_of, plan, same_log
from support.outbox import Outbox, new_outbox
from support.topics import Topics
from workorders.core import triggers
from workorders.core.creation.work_orders import Created
from workorders.core.items import Item, Rejection
from workorders.kafka.ingest import dead_letters
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange, Partition

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("topics")]

TIME = 1_700_000_000_000


@pytest.fixture
def outbox(stack: LocalStack, topics: Topics, name: str) -> Outbox:
    topics.create(name)
    topics.create(f"{name}.dead")
    return new_outbox(stack)


def reading(outbox: Outbox, name: str, **fields: Any) -> InProcessTrigger:
    """Return a trigger whose work orders are in the outbox's database."""
    parts = SimpleNamespace(database_url=outbox.database_url, kafka_settings=outbox.kafka)
    return InProcessTrigger(cast("LocalStack", parts), name, dead_letter_topic=f"{name}.dead", **fields)


def batch(trigger: InProcessTrigger) -> int:
    return trigger.batch()


def dead(outbox: Outbox, name: str) -> list[Message]:
    """Relay the waiting messages, and return all of the topic, in the order of the rejected messages."""
    outbox.relay()
    return sorted(consumed(outbox.kafka, f"{name}.dead"), key=lambda message: headers(message)[-7])


def headers(message: Message) -> list[Any]:
    """Return the headers; the offset of the rejected message is the seventh from the end."""
    found: Any = message.headers() or []
    return list(found)


def test_a_rejected_message_is_published_once_as_it_came_with_the_reason(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.produce(name, [b"{}", b"rubb\xffish"], key=b"\xff", headers=[("a", b"\0"), ("a", None)], timestamp_ms=TIME)
    topics.produce(name, [None, b"{}"], timestamp_ms=TIME)
    trigger = reading(outbox, name)
    batch_id = batch(trigger)
    for expected in (Created(2, 2), Created(0, 0, 4)):  # the ingest and a replay
        (outcome,) = trigger.ingest_messages(batch_id)
        assert (outcome.error, outcome.created) == (None, expected)
    first, second = dead(outbox, name)
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"\xff", b"rubb\xffish", TIME)
    assert (second.key(), second.value()) == (None, None)
    assert headers(first)[:2] == [("a", b"\0"), ("a", None)]
    assert dict(headers(first)[2:]) == {
        "__connect.errors.topic": name.encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"1",
        "__connect.errors.connector.name": name.encode(),
        "__connect.errors.task.id": str(batch_id).encode(),
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"workorders",
        "__connect.errors.exception.class.name": b"not-utf8",
        "__connect.errors.exception.message": b"the value is not UTF-8 at byte 4",
    }


@pytest.mark.parametrize("fields", [{}, {"virtual_partitions": 2}], ids=str)
def test_an_attempt_that_is_rolled_back_publishes_nothing_and_the_next_one_publishes_once(
    outbox: Outbox, topics: Topics, name: str, fields: dict[str, Any]
) -> None:
    topics.produce(name, [b"1", b"2", b"3", b"4"])
    trigger = reading(outbox, name, **fields)
    batch_id = batch(trigger)
    for begun in trigger.prepare(batch_id).attempts:
        failed = trigger.ingest_first(begun, 1)
        assert "the reader ended too early" in (failed.error or "")
    assert dead(outbox, name) == []
    outcomes = trigger.ingest_messages(batch_id)
    assert sum(outcome.created.rejected for outcome in outcomes) == 4
    assert sorted(message.value() or b"" for message in dead(outbox, name)) == [b"1", b"2", b"3", b"4"]


def test_partitions_that_publish_dead_letters_with_the_same_keys_in_other_orders_do_not_deadlock(
    outbox: Outbox, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, partitions = 300, [partition_of(name, number) for number in range(4)]
    monkeypatch.setattr(dead_letters, "_CHUNK_MESSAGES", 20)
    all_read = Barrier(len(partitions))

    def rejected(partition: Partition) -> Iterator[Item]:
        facts = {"topic": name, "partition": partition.partition, "headers": [], "timestamp": 1}
        for offset in range(count):
            key = str(offset if partition.partition % 2 else count - offset)
            request = orjson.dumps({**facts, "offset": offset, "key": key})
            # One that the outbox does not take makes its chunk go one by one.
            raw = b"x" * (1_000_000 if offset == count // 2 else 1)
            yield Item(stream_name(partition), offset, request, None, Rejection("not-json", "no JSON"), raw)
        all_read.wait(30)

    with outbox.connect() as connection:
        trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition={})
        batch_id = plan(connection, trigger, *(OffsetRange(partition, 0, count) for partition in partitions))
        first = attempt(connection, batch_id, dead_letter_topic=f"{name}.dead")

    def ingest_one(partition: Partition) -> int:
        range_ = OffsetRange(partition, 0, count)
        with outbox.connect() as connection:
            return ingest(connection, replace(first, range=range_), rejected(partition), no_proof, same_log).rejected

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(ingest_one, partitions)) == [count] * len(partitions)


def test_messages_that_are_read_again_after_the_ledger_was_set_back_are_not_published_again(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.produce(name, [b"1", b"2"])
    trigger = reading(outbox, name)
    trigger.ingest_messages(batch(trigger))
    with outbox.connect() as connection:
        connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 0")
    topics.produce(name, [b"3"])
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert outcome.created == Created(0, 1, 2)
    assert [message.value() for message in dead(outbox, name)] == [b"1", b"2", b"3"]


def test_a_message_that_is_larger_than_the_outbox_takes_stops_nothing(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.produce(name, [b"1", b"x" * 999_700, b"2"], key=b"k", headers=[("a", b"1")])
    trigger = reading(outbox, name)
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert (outcome.error, outcome.created) == (None, Created(0, 3))
    found = dead(outbox, name)
    assert [(message.key(), message.value()) for message in found] == [(b"k", b"1"), (None, None), (b"k", b"2")]
    assert ["a" in dict(headers(message)) for message in found] == [True, False, True]


def test_a_duplicate_and_a_filtered_message_are_no_dead_letters(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.produce(name, [b'{"id":1}', b'{"id":1}', b'{"id":2,"test":true}'])
    key = {"key": "body:/id", "window": "1h"}
    trigger = reading(outbox, name, idempotency=key, filter={"body:/test": {"exists": False}})
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert (outcome.created.created, outcome.created.rejected, outcome.created.filtered) == (1, 1, 1)
    assert dead(outbox, name) == []
