"""What a batch was sent under changes before it is known what became of it: prefix, markers, shards, mode."""

import re
import signal
from dataclasses import replace

import pytest

from local_stack.stack import LocalStack
from support.outbox import Outbox, new_outbox
from support.stopped_relay import MESSAGES, assert_whole, killed, relay_that, write
from support.topics import Topics
from workorders.kafka.outbox_relay.checkpoint_topic import MarkersTopicError
from workorders.outbox import admin
from workorders.outbox.exceptions import OutboxContradictionError

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, batch_messages=50)


def release(outbox: Outbox, *, sent: bool) -> int:
    with outbox.connect() as connection:
        return admin.release_shard(connection, 0, sent=sent)


@pytest.mark.parametrize("step", ["acknowledged", "committed"])
def test_a_relay_that_was_stopped_under_another_prefix_is_fenced_all_the_same(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that(step, "SIGSTOP", outbox) as zombie:
        outbox.leases_run_out()
        expected += write(outbox, name, MESSAGES)
        outbox.drain(transactional_id_prefix="another")
        assert_whole(outbox, name, expected)
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    # Back again: what stands in the database is the prefix of the last relay, not of the first.
    outbox.drain()
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize("step", ["first committed", "committed"])
def test_a_topic_of_markers_that_is_lost_while_a_batch_is_open_stops_the_shard(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed(step, outbox)
    sent = len(outbox.values(name))
    topics.delete(outbox.definition.markers_topic)
    with pytest.raises(OutboxContradictionError, match=r"^Shard 0 of the outbox stands still: a batch of \d+ messages"):
        outbox.drain()
    assert len(outbox.values(name)) == sent
    assert release(outbox, sent=True) > 0
    outbox.drain()
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize("step", ["first committed", "committed"])
def test_another_topic_of_markers_is_refused_while_a_batch_is_open_and_taken_when_none_is(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed(step, outbox)
    other = f"{outbox.definition.markers_topic}-2"
    with pytest.raises(OutboxContradictionError, match=rf"topic {outbox.definition.markers_topic} .* topic {other} "):
        outbox.drain(markers_topic=other)
    outbox.drain()
    assert_whole(outbox, name, expected)
    expected += write(outbox, name, MESSAGES)
    outbox.drain(markers_topic=other)
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize("column", ["markers_cluster", "markers_outbox_id"])
def test_a_batch_of_another_cluster_or_outbox_stops_the_shard(
    outbox: Outbox, topics: Topics, name: str, column: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed("claimed", outbox)
    before = outbox.ask(f"SELECT {column} FROM workorders.outbox_shards WHERE shard = 0")[0][0]
    outbox.ask(f"UPDATE workorders.outbox_shards SET {column} = gen_random_uuid() WHERE shard = 0")
    with pytest.raises(OutboxContradictionError, match=str(before)):
        outbox.drain()
    assert release(outbox, sent=False) > 0
    outbox.drain()
    assert_whole(outbox, name, expected)
    assert outbox.ask(f"SELECT {column} FROM workorders.outbox_shards WHERE shard = 0") == [(before,)]


@pytest.mark.parametrize(
    ("partitions", "policy", "says"),
    [
        (3, "compact", "has 3 partitions and needs 16, "),
        (16, "compact,delete", "has cleanup.policy=compact,delete and needs compact: "),
    ],
)
def test_a_topic_of_markers_in_which_they_would_not_last_is_refused(
    outbox: Outbox, topics: Topics, partitions: int, policy: str, says: str
) -> None:
    topic = topics.create(outbox.definition.markers_topic, partitions, config={"cleanup.policy": policy})
    write(outbox, "orders")
    with pytest.raises(MarkersTopicError, match=f"^The topic {topic}, .* {re.escape(says)}"):
        outbox.drain()
    assert outbox.waiting() == MESSAGES
    assert outbox.ask("SELECT * FROM workorders.outbox_holds") == []


@pytest.mark.parametrize(("step", "signal_"), [("acknowledged", "SIGSTOP"), ("committed", "SIGSTOP")])
def test_a_shard_that_vanishes_with_an_open_batch_is_fenced_and_settled_first(
    outbox: Outbox, topics: Topics, name: str, step: str, signal_: str
) -> None:
    topics.create(name, partitions=2)
    two = replace(outbox, definition=outbox.definition.model_copy(update={"shards": 2}))
    keys = keys_of_the_second_shard(outbox, name)
    expected = write(outbox, name, keys=keys)
    with relay_that(step, signal_, two) as zombie:
        assert outbox.ask("SELECT DISTINCT shard FROM workorders.outbox_claims") == [(1,)]
        outbox.leases_run_out()
        expected += write(outbox, name, MESSAGES, keys=keys)
        outbox.drain(shards=1)
        assert_whole(outbox, name, expected)
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    outbox.drain(shards=1)
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize("step", ["acknowledged", "committed"])
@pytest.mark.parametrize("signal_", ["SIGKILL", "SIGSTOP"])
def test_a_batch_with_a_marker_is_settled_by_it_though_the_mode_has_changed(
    outbox: Outbox, topics: Topics, name: str, step: str, signal_: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that(step, signal_, outbox) as relay:
        outbox.leases_run_out()
        outbox.drain(mode="at-least-once")
        assert_whole(outbox, name, expected)
        if signal_ == "SIGSTOP":
            relay.send_signal(signal.SIGCONT)
            relay.wait(60)
    expected += write(outbox, name, MESSAGES)
    outbox.drain()
    assert_whole(outbox, name, expected)


def keys_of_the_second_shard(outbox: Outbox, topic: str) -> list[int]:
    """Return seven keys that lie in the second of two shards."""
    found = outbox.ask(
        """
        SELECT key FROM generate_series(1, 100) AS key
        WHERE get_byte(workorders.outbox_hash(%s, convert_to(key::text, 'UTF8')), 4) & 1 = 1 ORDER BY key LIMIT 7
        """,
        topic,
    )
    return [row[0] for row in found]
