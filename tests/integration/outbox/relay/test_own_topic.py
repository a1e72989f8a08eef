"""The checkpoint topic is the relay's own: no message is sent there, and no other program's record counts in it."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from local_stack.stack import LocalStack
from support.consumed import consumed
from support.outbox import Outbox, new_outbox
from support.stopped_relay import MESSAGES, assert_whole, killed, write
from support.topics import Topics
from workorders.outbox import OutboxMessage, OutboxMessageError, admin
from workorders.outbox.store.leases import BUCKETS

pytestmark = pytest.mark.integration

LIKE_MARKERS = {"cleanup.policy": "compact"}


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, max_messages=50)


@pytest.fixture
def strangers(outbox: Outbox) -> Iterator[Producer]:
    """Another program that may write to the checkpoint topic."""
    producer = Producer({**outbox.kafka, "enable.idempotence": True})
    yield producer
    producer.flush(30)


def checkpoints(outbox: Outbox, shard: int) -> list[Message]:
    found = consumed(outbox.kafka, outbox.definition.checkpoint_topic)
    return [message for message in found if message.partition() == shard]


def open_batches(outbox: Outbox) -> list[tuple[Any, ...]]:
    """Return shard and number of each open batch, and the epoch of its relay."""
    found = outbox.ask(
        "SELECT DISTINCT shard, batch, epoch FROM workorders.outbox_claims JOIN workorders.outbox_shards USING (shard)"
    )
    assert found
    return found


def test_a_message_for_the_checkpoints_topic_waits_alone_and_all_others_are_sent(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    """Without a key, which the compacted topic refuses with all else that is in the transaction."""
    topics.create(name)
    outbox.relay()
    own = outbox.definition.checkpoint_topic
    # As it could be enqueued before it was refused there.
    for bucket in range(BUCKETS):
        outbox.ask(
            "INSERT INTO workorders.outbox_messages (event_id, bucket, topic, value) "
            "VALUES (gen_random_uuid(), %s, %s, 'x')",
            bucket,
            own,
        )
    outbox.write(*(OutboxMessage(topic=name, key=f"k{n}", value=f"{n}") for n in range(20)))
    drained = outbox.relay()
    assert sorted(map(int, filter(None, outbox.values(name)))) == list(range(20))
    assert [(hold.kind, hold.topic, hold.reason) for hold in outbox.holds()] == [
        ("topic", own, "the relay keeps its own checkpoints in it")
    ]
    assert {sentence.split(";")[0].split(".")[0] for sentence in drained.failures} == {
        f"Topic {own} takes no messages: the relay keeps its own checkpoints in it"
    }
    assert outbox.waiting() == BUCKETS
    outbox.write(OutboxMessage(topic=name, key="k", value="20"))
    outbox.relay()
    assert b"20" in outbox.values(name)


def test_no_message_can_be_enqueued_for_the_checkpoint_topic(outbox: Outbox, topics: Topics, name: str) -> None:
    own = outbox.definition.checkpoint_topic
    outbox.relay()
    with pytest.raises(OutboxMessageError, match="the relay keeps its own checkpoints in this topic"):
        outbox.write(OutboxMessage(topic=name, value="good"), OutboxMessage(topic=own, key="k", value="x"))
    assert outbox.waiting() == 0


def test_messages_wait_while_their_topic_is_configured_as_that_of_checkpoints_and_are_sent_afterwards(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    later = topics.create(f"{name}-later", BUCKETS, config=LIKE_MARKERS)
    topics.create(name)
    outbox.write(OutboxMessage(topic=later, key="k", value="waits"), OutboxMessage(topic=name, key="k", value="good"))
    assert len(outbox.relay(checkpoint_topic=later).failures) == 1
    assert outbox.values(name) == [b"good"]
    with pytest.raises(OutboxMessageError, match="its own checkpoints"):
        outbox.write(OutboxMessage(topic=later, key="k", value="refused"))
    with outbox.connect() as connection:
        admin.reset_identity(connection)
    outbox.relay()
    (hold,) = outbox.holds()
    with outbox.connect() as connection:
        admin.release_hold(connection, hold.id)
    assert outbox.relay().failures == []
    assert b"waits" in outbox.values(later)
    outbox.write(OutboxMessage(topic=later, key="k", value="taken again"))


GARBAGE = [b"x", b"", None, b"[]", b"7", b"null", b'{"batch": 1}', b'{"batch": "1", "epoch": null}', b"[" * 2000]


@pytest.mark.parametrize("step", ["acknowledged", "committed"])
def test_records_that_are_no_checkpoints_are_ignored_with_one_warning(
    outbox: Outbox, topics: Topics, strangers: Producer, name: str, *, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed(step, outbox)
    outbox_id = outbox.ask("SELECT outbox_id::text FROM workorders.outbox_identity")[0][0]
    for value in GARBAGE:
        strangers.produce(outbox.definition.checkpoint_topic, value, f"{outbox_id}/0", 0)
    assert strangers.flush(30) == 0
    expected += write(outbox, name, MESSAGES)
    with caplog.at_level(logging.WARNING, "workorders.outbox.relay.checkpoints"):
        outbox.relay()
    assert_whole(outbox, name, expected)
    (warning,) = caplog.messages
    assert f"partition 0: {len(GARBAGE)} records" in warning


def words_of(checkpoint: Message) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(checkpoint.value() or b"{}")
    return found


@pytest.mark.parametrize("step", ["claimed", "acknowledged"])
def test_a_forged_checkpoint_deletes_nothing_that_was_not_sent(
    outbox: Outbox, topics: Topics, strangers: Producer, name: str, step: str
) -> None:
    """All that a checkpoint contains can be guessed or copied, but for its signature."""
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    outbox.relay()
    expected += write(outbox, name, MESSAGES)
    killed(step, outbox)
    for shard, batch, epoch in open_batches(outbox):
        last = checkpoints(outbox, shard)[-1]
        for forged in (
            {"outbox": words_of(last)["outbox"], "shard": shard, "batch": batch, "epoch": epoch},
            {**words_of(last), "batch": batch},
            {**words_of(last), "batch": batch, "epoch": epoch},
        ):
            strangers.produce(
                outbox.definition.checkpoint_topic, json.dumps(forged, separators=(",", ":")), last.key(), shard
            )
    assert strangers.flush(30) == 0
    expected += write(outbox, name, 2 * MESSAGES)
    outbox.relay()
    assert_whole(outbox, name, expected)


def test_an_old_checkpoint_that_is_written_again_is_not_the_last_one(
    stack: LocalStack, topics: Topics, strangers: Producer, name: str
) -> None:
    outbox = new_outbox(stack, max_messages=50)
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed("committed", outbox)
    ((_, batch, _),) = open_batches(outbox)
    old, last = checkpoints(outbox, 0)
    assert words_of(last)["batch"] == batch
    strangers.produce(outbox.definition.checkpoint_topic, old.value(), old.key(), 0)
    assert strangers.flush(30) == 0
    expected += write(outbox, name, MESSAGES)
    outbox.relay()
    assert_whole(outbox, name, expected)
