"""A held key that is tried again keeps its order, whatever interrupts the try."""

import signal
from typing import Any

import pytest
from confluent_kafka import Producer

from local_stack.stack import LocalStack
from support.consumed import consumed
from support.outbox import Outbox, new_outbox
from support.relay_process import RETRY_STEPS
from support.stopped_relay import relay_that
from support.topics import Topics
from workorders.outbox import OutboxMessage, admin
from workorders.outbox.relay.producer import TransactionalProducer

pytestmark = pytest.mark.integration

PARTITION = 1
IN_ORDER = [b"0", b"1", b"2", b"3"]


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack)


def message(topic: str, value: bytes) -> OutboxMessage:
    """One of the key's, all for a partition that the topic gets only later."""
    return OutboxMessage(topic=topic, key="k", value=value, partition=PARTITION)


def hold_a_key(outbox: Outbox, topics: Topics, topic: str) -> None:
    """Let a key be held, with two messages that stepped aside and one behind them that did not, and come due."""
    topics.create(topic)
    outbox.write(*(message(topic, value) for value in IN_ORDER[:2]))
    assert len(outbox.relay().failures) == 1
    outbox.write(message(topic, IN_ORDER[2]))
    assert outbox.relay().failures == []
    outbox.write(message(topic, IN_ORDER[3]))
    topics.grow(topic, PARTITION + 1)
    outbox.holds_come_due()


def values(outbox: Outbox, topic: str) -> list[bytes | None]:
    return [found.value() for found in consumed(outbox.kafka, topic) if found.partition() == PARTITION]


def assert_sent_in_order(outbox: Outbox, topic: str) -> None:
    """All are there once, oldest first, and nothing is held, waits or is claimed."""
    assert values(outbox, topic) == IN_ORDER
    for table in ("messages", "claims", "holds"):
        assert outbox.ask(f"SELECT * FROM workorders.outbox_{table}") == []


@pytest.mark.parametrize("step", RETRY_STEPS)
def test_a_relay_killed_while_a_held_key_is_tried_again_keeps_its_order(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    hold_a_key(outbox, topics, name)
    with relay_that(step, "SIGKILL", outbox) as process:
        assert process.wait(30) == -signal.SIGKILL
    outbox.leases_run_out()
    assert outbox.relay().failures == []
    assert_sent_in_order(outbox, name)


@pytest.mark.parametrize("step", ["claimed again", "acknowledged again", "committed again"])
def test_a_zombie_that_was_trying_a_held_key_again_changes_nothing(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    hold_a_key(outbox, topics, name)
    with relay_that(step, "SIGSTOP", outbox) as zombie:
        outbox.leases_run_out()
        assert outbox.relay().failures == []
        assert_sent_in_order(outbox, name)
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    assert_sent_in_order(outbox, name)


@pytest.mark.parametrize("step", ["_produce", "_commit"])
def test_a_producer_lost_while_a_held_key_is_tried_again_keeps_its_order(
    outbox: Outbox, topics: Topics, name: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another producer of the shard's id fences it, as a relay does that wakes up late."""
    hold_a_key(outbox, topics, name)
    original = vars(TransactionalProducer)[step]
    tries: list[str] = []

    def lost_at_first(*arguments: Any) -> Any:
        tries.append(step)
        if len(tries) == 1:
            fence(outbox)
        return original(*arguments)

    monkeypatch.setattr(TransactionalProducer, step, lost_at_first)
    assert outbox.relay().failures == []
    assert len(tries) > 1
    assert_sent_in_order(outbox, name)


def fence(outbox: Outbox) -> None:
    outbox_id = outbox.ask("SELECT outbox_id::text FROM workorders.outbox_identity")[0][0]
    producer = Producer(
        {**outbox.kafka, "transactional.id": f"{outbox.definition.transactional_id_prefix}-{outbox_id}-0"}
    )
    producer.init_transactions(30)


def test_an_operator_who_gives_an_open_try_back_keeps_the_order_of_the_key(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    hold_a_key(outbox, topics, name)
    with relay_that("claimed again", "SIGKILL", outbox) as process:
        process.wait(30)
    outbox.leases_run_out()
    with outbox.connect() as connection:
        assert admin.release_shard(connection, 0, sent=False) == 1
    assert outbox.relay().failures == []
    assert_sent_in_order(outbox, name)


def test_a_message_that_is_refused_again_holds_its_key_longer_and_stays_its_oldest(
    outbox: Outbox, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the producer is lost by it, and the claim is given back before it is known who is to blame."""
    topics.create(name, config={"max.message.bytes": "3000"})
    poison = b"x" * 10_000
    outbox.write(*(OutboxMessage(topic=name, key="k", value=value) for value in (poison, b"1")))
    uncompressed = {"compression": "none"}
    assert len(outbox.relay(**uncompressed).failures) == 1
    commit = vars(TransactionalProducer)["_commit"]

    def lost(sender: TransactionalProducer) -> Any:
        sender._producer.flush(30)
        fence(outbox)
        return commit(sender)

    for tries, change in ((2, None), (3, lost)):
        outbox.holds_come_due()
        if change is not None:
            monkeypatch.setattr(TransactionalProducer, "_commit", change)
        assert len(outbox.relay(**uncompressed).failures) == 1
        (hold,) = outbox.holds()
        assert (hold.tries, hold.messages) == (tries, 2)
        assert outbox.waiting() == 0


def test_a_held_key_waits_while_its_topic_is_held(outbox: Outbox, topics: Topics, name: str) -> None:
    hold_a_key(outbox, topics, name)
    topics.delete(name)
    assert len(outbox.relay().failures) == 1
    assert [(hold.kind, hold.tries) for hold in outbox.holds()] == [("key", 1), ("topic", 1)]
    assert outbox.relay().failures == []
    outbox.holds_come_due()
    assert len(outbox.relay().failures) == 1
    assert [(hold.kind, hold.tries) for hold in outbox.holds()] == [("key", 1), ("topic", 2)]
    topics.create(name, PARTITION + 1)
    outbox.holds_come_due()
    assert outbox.relay().failures == []
    assert_sent_in_order(outbox, name)


def test_a_topic_of_which_every_message_is_of_a_held_key_is_tried_again_too(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name)
    outbox.write(message(name, IN_ORDER[0]))
    assert len(outbox.relay().failures) == 1
    topics.delete(name)
    outbox.holds_come_due()
    assert len(outbox.relay().failures) == 1
    assert outbox.waiting() == 0
    topics.create(name, PARTITION + 1)
    outbox.holds_come_due()
    assert outbox.relay().failures == []
    assert values(outbox, name) == IN_ORDER[:1]
    assert outbox.ask("SELECT * FROM workorders.outbox_holds") == []
