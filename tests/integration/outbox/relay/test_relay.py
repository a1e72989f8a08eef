"""What commits in Postgres comes to Kafka once, whole, and in order."""

import gc

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from local_stack.stack import LocalStack
from support.consumed import consumed
from support.outbox import Outbox, assert_exactly_once, new_outbox
from support.topics import Topics
from workorders.outbox import OutboxMessage, enqueue
from workorders.outbox.relay import producer

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack)


def test_a_message_arrives_as_it_was_written(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name, partitions=3)
    outbox.write(
        OutboxMessage(topic=name, key=b"k\0", value=b"\0\xff", headers=[("a", "1"), ("b", None), ("a", b"\xff")]),
        OutboxMessage(topic=name, key="k\0", value=None, timestamp_ms=1_600_000_000_000),
        OutboxMessage(topic=name, value={"n": 1}, partition=2),
        OutboxMessage(topic=name, key="", value=""),
    )
    assert outbox.relay().messages == 4
    found = {message.value(): message for message in consumed(outbox.kafka, name)}
    assert set(found) == {b"\0\xff", None, b'{"n":1}', b""}
    assert found[b"\0\xff"].key() == b"k\0"
    assert found[b"\0\xff"].headers() == [("a", b"1"), ("b", None), ("a", b"\xff")]
    assert found[None].timestamp()[1] == 1_600_000_000_000
    assert found[b'{"n":1}'].partition() == 2
    assert found[b'{"n":1}'].key() is None
    assert found[b""].key() == b""
    assert outbox.waiting() == 0
    assert outbox.relay().messages == 0


def test_a_backlog_of_many_batches_keeps_the_order_of_its_keys(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name, partitions=3)
    expected = [b"%d-%d" % (n % 50, n) for n in range(20_000)]
    outbox.write(*(OutboxMessage(topic=name, key=value.split(b"-")[0], value=value) for value in expected))
    assert outbox.relay(max_messages=3000).messages == 20_000
    found = [value for value in outbox.values(name) if value]
    assert_exactly_once(found, expected)
    for key in range(50):
        mine = [int(value.split(b"-")[1]) for value in found if value.startswith(b"%d-" % key)]
        assert mine == sorted(mine)


def test_a_relay_that_has_ended_leaves_no_client_to_the_garbage_collection(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    # In a process that was forked since, that collection would wait for the client's threads indefinitely.
    topics.create(name)
    outbox.write(OutboxMessage(topic=name, value="a"))
    gc.collect()
    before = clients()
    gc.disable()
    try:
        assert outbox.relay().messages == 1
        assert clients() - before == set()
    finally:
        gc.enable()


def clients() -> set[int]:
    return {id(found) for found in gc.get_objects() if isinstance(found, (Producer, Consumer, AdminClient))}


def test_what_was_rolled_back_is_never_sent(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    with outbox.connect() as connection:
        enqueue(connection, OutboxMessage(topic=name, value="aborted"))
        connection.rollback()
        enqueue(connection, OutboxMessage(topic=name, value="committed"))
    outbox.relay()
    assert outbox.values(name) == [b"committed"]


def test_a_lower_id_that_commits_later_is_sent_later(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    with outbox.connect() as slow:
        enqueue(slow, OutboxMessage(topic=name, key="slow", value="slow"))
        outbox.write(OutboxMessage(topic=name, key="fast", value="fast"))
        outbox.relay()
        assert outbox.values(name) == [b"fast"]
    outbox.relay()
    assert outbox.values(name) == [b"fast", b"slow"]


def test_messages_carry_their_event_id_where_a_header_is_named_for_it(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name)
    with outbox.connect() as connection:
        ids = enqueue(connection, [OutboxMessage(topic=name, key="k", value=str(n)) for n in range(3)])
    assert outbox.relay(event_id_header="event-id").messages == 3
    found = consumed(outbox.kafka, name)
    assert [message.value() for message in found] == [b"0", b"1", b"2"]
    assert [message.headers() for message in found] == [[("event-id", str(event_id).encode())] for event_id in ids]
    assert outbox.waiting() == 0


def test_a_producers_full_queue_makes_it_wait_and_nothing_else(
    outbox: Outbox, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    small = {"queue.buffering.max.messages": 20}
    monkeypatch.setattr(producer, "Producer", lambda config: Producer({**config, **small}))
    expected = [b"%d" % n for n in range(100)]
    outbox.write(*(OutboxMessage(topic=name, key="k", value=value) for value in expected))
    drained = outbox.relay()
    assert (drained.messages, drained.failures) == (100, [])
    assert outbox.values(name) == expected
