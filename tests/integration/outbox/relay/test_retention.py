"""What was sent is kept for as long as it was asked for, and no longer."""

import pytest

from local_stack.stack import LocalStack
from support.outbox import Outbox, new_outbox
from support.topics import Topics
from workorders.outbox import OutboxMessage, admin
from workorders.outbox.relay.definition import TopicDefinition

pytestmark = pytest.mark.integration

HOUR = 3600


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, max_messages=50, delete_sent_after=HOUR)


def kept(outbox: Outbox, columns: str = "value") -> list[tuple[object, ...]]:
    return outbox.ask(f"SELECT {columns} FROM workorders.outbox_sent ORDER BY id")


def test_sent_messages_are_kept_whole_and_are_sent_no_more(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name, partitions=2)
    columns = "id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers"
    outbox.write(
        OutboxMessage(topic=name, key="k", value={"n": 1}, headers=[("a", b"\xff")], partition=1, timestamp_ms=5),
        OutboxMessage(topic=name, value=None),
    )
    written = outbox.ask(f"SELECT {columns} FROM workorders.outbox_messages ORDER BY id")
    assert outbox.relay().messages == 2
    assert kept(outbox, columns) == written
    assert outbox.ask("SELECT bool_and(now() - sent_at < interval '1 hour') FROM workorders.outbox_sent") == [(True,)]
    assert outbox.relay().messages == 0
    with outbox.connect() as connection:
        (topic,) = admin.topics(connection)
    assert (topic.sent, topic.waiting) == (2, 0)


def test_what_is_older_than_asked_for_is_deleted_and_nothing_else(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    outbox.write(*(OutboxMessage(topic=name, key="k", value=value) for value in (b"older", b"younger")))
    outbox.relay()
    outbox.ask(
        """
        UPDATE workorders.outbox_sent
        SET sent_at = now() - CASE value WHEN 'older' THEN interval '61 minutes' ELSE interval '59 minutes' END
        """
    )
    outbox.relay()
    assert kept(outbox) == [(b"younger",)]


def test_a_retention_of_none_keeps_nothing_more_and_lets_what_was_kept_go(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name)
    outbox.write(OutboxMessage(topic=name, key="k", value="kept"))
    outbox.relay()
    assert kept(outbox) == [(b"kept",)]
    outbox.write(OutboxMessage(topic=name, key="k", value="not kept"))
    outbox.relay(delete_sent_after=0)
    assert kept(outbox) == []


def test_what_was_left_out_for_a_later_message_of_its_key_is_kept_too(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name)
    outbox.write(*(OutboxMessage(topic=name, key="k", value=value) for value in (b"1", b"2")))
    outbox.relay(topics={name: TopicDefinition(compact=True)})
    assert outbox.values(name) == [b"2"]
    assert kept(outbox) == [(b"1",), (b"2",)]
