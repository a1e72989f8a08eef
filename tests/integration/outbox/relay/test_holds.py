"""What Kafka does not take is held alone and kept; everything else is sent."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.outbox import Outbox, new_outbox
from support.topics import Topics
from workorders.core.postgres.connection import Connection
from workorders.outbox import OutboxMessage, admin
from workorders.outbox.relay import shard
from workorders.outbox.relay.definition import TopicDefinition
from workorders.outbox.store import leases
from workorders.outbox.store.holds import hold_topic

pytestmark = pytest.mark.integration

SMALL = {"max.message.bytes": "3000"}


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, max_messages=64)


def large() -> bytes:
    """More than a topic of small messages takes, and no compression helps."""
    return os.urandom(5000)


def release(outbox: Outbox) -> None:
    with outbox.connect() as connection:
        for hold in outbox.holds():
            admin.release_hold(connection, hold.id)


def test_a_missing_topic_waits_alone_and_is_sent_once_it_is_there(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    missing = f"{name}-later"
    outbox.write(*(OutboxMessage(topic=topic, key="k", value=str(n)) for n in range(5) for topic in (missing, name)))
    drained = outbox.relay()
    assert outbox.values(name) == [b"0", b"1", b"2", b"3", b"4"]
    assert [sentence.split(":")[0] for sentence in drained.failures] == [f"Topic {missing} takes no messages"]
    (hold,) = outbox.holds()
    assert (hold.kind, hold.topic, hold.tries, hold.reason) == (
        "topic",
        missing,
        1,
        "the cluster has no such topic",
    )
    assert not topics.exists(missing)
    assert outbox.relay().failures == []
    outbox.holds_come_due()
    assert len(outbox.relay().failures) == 1
    (hold,) = outbox.holds()
    assert hold.tries == 2
    minutes = outbox.ask("SELECT extract(epoch FROM next_try_at - now()) / 60 FROM workorders.outbox_holds")[0][0]
    assert 1.5 < minutes <= 2
    topics.create(missing)
    outbox.holds_come_due()
    assert outbox.relay().failures == []
    assert outbox.values(missing) == [b"0", b"1", b"2", b"3", b"4"]
    assert outbox.holds() == []


def test_a_message_that_is_too_large_holds_its_key_and_takes_no_batch_mate_with_it(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name, config=SMALL)
    other = topics.create(f"{name}-other")
    poison = large()
    messages = [OutboxMessage(topic=name, key=f"k{n % 10}", value=b"%d" % n) for n in range(200)]
    messages[105] = OutboxMessage(topic=name, key="k5", value=poison)
    outbox.write(*messages, *(OutboxMessage(topic=other, key="k", value=b"%d" % n) for n in range(200)))
    drained = outbox.relay()
    assert len(drained.failures) == 1
    found = outbox.values(name)
    assert len(found) == len(set(found))
    assert set(found) == {b"%d" % n for n in range(200) if n % 10 != 5 or n < 105}
    assert outbox.values(other) == [b"%d" % n for n in range(200)]
    (hold,) = outbox.holds()
    assert (hold.kind, hold.key) == ("key", b"k5")
    # Later ones of the key step aside, and so do new ones.
    outbox.write(OutboxMessage(topic=name, key="k5", value=b"new"), OutboxMessage(topic=name, key="k6", value=b"free"))
    outbox.relay()
    assert b"free" in outbox.values(name)
    assert b"new" not in outbox.values(name)
    outbox.ask("DELETE FROM workorders.outbox_messages WHERE hold_id IS NOT NULL AND value = %s", poison)
    release(outbox)
    outbox.relay()
    mine = [value for value in outbox.values(name) if value == b"new" or (value or b"").endswith(b"5")]
    assert mine == [*(b"%d" % n for n in range(5, 200, 10) if n != 105), b"new"]
    assert outbox.waiting() == 0


def test_by_policy_a_refused_message_is_set_aside_and_its_key_continues(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name, config=SMALL)
    poison = large()
    outbox.write(*(OutboxMessage(topic=name, key="k", value=value) for value in (b"1", poison, b"2")))
    aside = {name: TopicDefinition(on_rejected="set_aside")}
    assert len(outbox.relay(topics=aside).failures) == 1
    assert outbox.values(name) == [b"1", b"2"]
    (hold,) = outbox.holds()
    assert (hold.kind, hold.messages, hold.next_try_at) == ("message", 1, None)
    assert outbox.ask("SELECT value FROM workorders.outbox_messages WHERE hold_id IS NOT NULL") == [(poison,)]


def test_only_the_last_message_of_a_key_goes_where_a_topic_is_compacted_before(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name)
    outbox.write(*(OutboxMessage(topic=name, key=f"k{n % 3}", value=b"%d" % n) for n in range(30)))
    outbox.relay(topics={name: TopicDefinition(compact=True)})
    assert {*outbox.values(name)} == {b"27", b"28", b"29"}
    with outbox.connect() as connection:
        (topic,) = admin.topics(connection)
    assert (topic.sent, topic.compacted, topic.waiting) == (3, 27, 0)


def test_unreadable_headers_hold_their_key_alone(outbox: Outbox, topics: Topics, name: str) -> None:
    """Such were written before they were refused at once."""
    topics.create(name)
    outbox.write(
        *(OutboxMessage(topic=name, key=f"k{n % 2}", value=b"%d" % n, headers=[("a", b"\xff")]) for n in range(6))
    )
    outbox.ask(
        """
        UPDATE workorders.outbox_messages SET headers = '[["a", {"base64": "abc"}]]' WHERE value = '2'
        """
    )
    (failure,) = outbox.relay().failures
    assert "was refused: its headers cannot be read" in failure
    found = set(outbox.values(name))
    assert found >= {b"1", b"3", b"5"}
    assert not found & {b"2", b"4"}
    (hold,) = outbox.holds()
    # Those of the same batch wait with it.
    assert (hold.kind, hold.key, hold.messages) == ("key", b"k0", 3)
    assert outbox.relay().failures == []


def test_by_policy_a_message_with_unreadable_headers_is_set_aside(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name)
    outbox.write(*(OutboxMessage(topic=name, key="k", value=b"%d" % n, headers=[("a", b"\xff")]) for n in range(3)))
    outbox.ask(
        """
        UPDATE workorders.outbox_messages SET headers = '[["a", {"base64": "abcde"}]]' WHERE value = '1'
        """
    )
    assert len(outbox.relay(topics={name: TopicDefinition(on_rejected="set_aside")}).failures) == 1
    assert outbox.values(name) == [b"0", b"2"]
    (hold,) = outbox.holds()
    assert (hold.kind, hold.messages) == ("message", 1)


def test_after_a_refusal_a_drain_looks_on_for_others_as_long_as_without(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name)
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        draining = pool.submit(outbox.relay_until, ended)
        try:
            for n in range(3):
                outbox.write(OutboxMessage(topic=name, key=f"bad {n}", value="no such partition", partition=7))
                eventually(partial(has, outbox.holds, n + 1), seconds=30, what="The hold")
                outbox.write(OutboxMessage(topic=name, key="good", value=b"%d" % n))
                eventually(partial(has, partial(outbox.values, name), n + 1), seconds=30, what="The other message")
        finally:
            ended.set()
        assert len(draining.result(60).failures) == 3
    assert outbox.values(name) == [b"0", b"1", b"2"]


def has(find: Callable[[], Sequence[object]], number: int) -> bool:
    return len(find()) == number


def test_a_refusal_is_seen_in_time_however_much_there_is_to_send(
    outbox: Outbox, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    monkeypatch.setattr(shard, "_MAX_SECONDS_AFTER_FAILURE", 0.5)
    outbox.write(OutboxMessage(topic=name, key="bad", value="no such partition", partition=7))
    assert len(outbox.relay_until(threading.Event()).failures) == 1


def test_shards_that_meet_the_same_failure_hold_the_topic_longer_once(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    topics.create(name)
    outbox.write(*(OutboxMessage(topic=f"{name}-missing", key=f"k{n}", value=str(n)) for n in range(100)))
    with outbox.connect() as connection:
        for tries in (1, 2):
            for shard in range(4):
                lease = leases.take(connection, shard, "test", shards=4)
                assert lease is not None
                hold_topic(connection, lease, f"{name}-missing", "the cluster has no such topic")
                leases.release(connection, lease)
            (hold,) = outbox.holds()
            assert hold.tries == tries
            outbox.holds_come_due()


@pytest.mark.parametrize("ending", [admin.release_hold, admin.purge_hold])
def test_a_hold_that_ends_while_rows_step_aside_ends_no_drain(
    outbox: Outbox, topics: Topics, name: str, ending: Callable[[Connection, int], int]
) -> None:
    topics.create(name)
    outbox.write(OutboxMessage(topic=name, key="k", value=b"1", partition=1))
    assert len(outbox.relay().failures) == 1
    (hold,) = outbox.holds()
    topics.grow(name, 2)
    outbox.write(OutboxMessage(topic=name, key="k", value=b"2", partition=1))
    with ThreadPoolExecutor(1) as pool, outbox.connect() as connection:
        with connection.transaction():
            ending(connection, hold.id)
            draining = pool.submit(outbox.relay)
            eventually(lambda: waits_for_a_lock(outbox), seconds=30, what="The relay waiting for the decision")
        assert draining.result(60).failures == []
    outbox.relay()
    assert outbox.values(name) == ([b"1", b"2"] if ending is admin.release_hold else [b"2"])
    assert outbox.holds() == []
    assert outbox.waiting() == 0


def waits_for_a_lock(outbox: Outbox) -> bool:
    return bool(
        outbox.ask(
            """
            SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
                AND application_name = 'workorders outbox relay'
            """
        )
    )
