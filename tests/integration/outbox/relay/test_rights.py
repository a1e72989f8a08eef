"""Topics that the relay may not write to, or that take nothing, are held alone; and the rights that it needs do."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]
from psycopg.conninfo import make_conninfo

from local_stack.postgres import SUPERUSER
from local_stack.stack import LocalStack
from support.consumed import consumed
from support.lost_broker import LostBroker
from support.outbox import Outbox, new_outbox
from support.rights import Rights
from support.topics import Topics
from workorders.outbox import OutboxMessage
from workorders.outbox.relay import producer as sender
from workorders.outbox.relay.producer import TransactionalProducer

pytestmark = pytest.mark.integration

SECONDS = 30.0


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    """As a relay reaches it that has no rights but those it is given."""
    made = new_outbox(stack, max_messages=64)
    return replace(made, kafka=stack.kafka.limited_settings)


@pytest.fixture
def rights(stack: LocalStack, outbox: Outbox) -> Iterator[Rights]:
    """All that a relay needs, but for the topics it sends to; the page on the outbox lists the same."""
    given = Rights(stack)
    definition = outbox.definition
    outbox_id = outbox.ask("SELECT outbox_id::text FROM workorders.outbox_identity")[0][0]
    transactional_id = f"{definition.transactional_id_prefix}-{outbox_id}-0"
    given.give(ResourceType.TOPIC, definition.checkpoint_topic, AclOperation.CREATE)
    given.give(ResourceType.TOPIC, definition.checkpoint_topic, AclOperation.READ, AclOperation.WRITE)
    given.give(ResourceType.TOPIC, definition.checkpoint_topic, AclOperation.DESCRIBE_CONFIGS)
    given.give(ResourceType.TRANSACTIONAL_ID, transactional_id, AclOperation.WRITE)
    yield given
    given.take_all()


def write(outbox: Outbox, *topics: str) -> None:
    outbox.write(*(OutboxMessage(topic=topic, key="k", value=str(n)) for n in range(5) for topic in topics))


def held(outbox: Outbox) -> dict[str, str]:
    return {hold.topic: hold.reason for hold in outbox.holds()}


def values(topics: Topics, topic: str) -> list[bytes | None]:
    """Return what a reader sees who has every right."""
    return [message.value() for message in consumed(topics.settings, topic)]


FIVE = [b"%d" % n for n in range(5)]


def test_topics_without_the_rights_are_held_alone_and_the_rights_that_are_listed_are_enough(
    outbox: Outbox, rights: Rights, topics: Topics, name: str
) -> None:
    allowed, described, hidden = (topics.create(f"{name}-{what}") for what in ("allowed", "described", "hidden"))
    rights.give(ResourceType.TOPIC, allowed, AclOperation.WRITE)
    rights.give(ResourceType.TOPIC, described, AclOperation.DESCRIBE)
    write(outbox, allowed, described, hidden)
    assert len(outbox.relay().failures) == 2
    assert held(outbox) == {
        described: "the client may not write to it",
        hidden: "the cluster has no such topic, or the client may not describe it",
    }
    assert values(topics, allowed) == FIVE
    assert outbox.ask("SELECT topic, failed FROM workorders.outbox_counters WHERE failed > 0 ORDER BY topic") == [
        (described, 1),
        (hidden, 1),
    ]


def test_a_topic_whose_right_is_taken_while_it_is_known_is_held_alone(
    outbox: Outbox, rights: Rights, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, lost = (topics.create(f"{name}-{what}") for what in ("kept", "lost"))
    for topic in (kept, lost):
        rights.give(ResourceType.TOPIC, topic, AclOperation.WRITE, AclOperation.DESCRIBE)
    send = TransactionalProducer.send
    began: list[int] = []

    def robbed_send(producer: TransactionalProducer, rows: Any, checkpoint: Any) -> Any:
        if not began:
            rights.take(ResourceType.TOPIC, lost, AclOperation.WRITE)
        began.append(len(rows))
        return send(producer, rows, checkpoint)

    monkeypatch.setattr(TransactionalProducer, "send", robbed_send)
    write(outbox, kept, lost)
    assert len(outbox.relay().failures) == 1
    assert list(held(outbox)) == [lost]
    assert values(topics, kept) == FIVE
    assert outbox.ask("SELECT DISTINCT topic FROM workorders.outbox_messages") == [(lost,)]


def test_a_topic_without_a_leader_is_held_alone(
    stack: LocalStack, lost_broker: LostBroker, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "SECONDS", 8.0)
    without_leader = lost_broker.topic
    outbox = new_outbox(stack, max_messages=64)
    topics.create(name)
    write(outbox, name, without_leader)
    assert len(outbox.relay().failures) == 1
    assert {topic: reason.split(",")[0] for topic, reason in held(outbox).items()} == {
        without_leader: "it did not take them in time"
    }
    assert outbox.values(name) == FIVE
    # Tried again alone it is held again, and a new message of another topic is sent.
    outbox.holds_come_due()
    outbox.write(OutboxMessage(topic=name, key="k", value="5"))
    assert len(outbox.relay().failures) == 1
    assert outbox.ask("SELECT tries FROM workorders.outbox_holds") == [(2,)]
    assert b"5" in outbox.values(name)


def test_a_role_with_the_listed_rights_can_enqueue_and_relay(stack: LocalStack, topics: Topics, name: str) -> None:
    """Those that the page on the outbox lists for Postgres."""
    owned = new_outbox(stack)
    topics.create(name)
    role = f"relay_{name.removeprefix('test-')}"
    with psycopg.connect(stack.postgres.url(SUPERUSER), autocommit=True) as server:
        server.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
    owned.ask(f"GRANT USAGE ON SCHEMA workorders TO {role}")
    owned.ask(f"GRANT EXECUTE ON FUNCTION workorders.enqueue_many TO {role}")
    for (table,) in owned.ask(
        "SELECT table_name FROM information_schema.tables "
        "WHERE table_schema = 'workorders' AND starts_with(table_name, 'outbox_')"
    ):
        owned.ask(f"GRANT SELECT, INSERT, UPDATE, DELETE ON workorders.{table} TO {role}")
    outbox = replace(owned, database_url=make_conninfo(owned.database_url, user=role, password=role))
    write(outbox, name)
    # All kinds of holds.
    outbox.write(
        OutboxMessage(topic=f"{name}-missing", key="k", value="x"),
        OutboxMessage(topic=name, key="p", value="y", partition=7),
        OutboxMessage(topic=name, value="z", partition=8),
    )
    assert len(outbox.relay().failures) == 3
    assert outbox.values(name) == FIVE
