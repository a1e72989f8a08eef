"""What makes the batches of an outbox its own: no relay differs from it before an operator has reset it."""

import re
import signal
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.outbox import Outbox, assert_exactly_once, new_outbox
from support.stopped_relay import MESSAGES, assert_whole, killed, relay_that, write
from support.topics import Topics
from workorders.outbox import admin
from workorders.outbox.exceptions import OutboxDecisionError, OutboxIdentityError
from workorders.outbox.relay.checkpoints import CheckpointTopicError
from workorders.outbox.store import leases

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, max_messages=50)


def reset(outbox: Outbox) -> list[int]:
    with outbox.connect() as connection:
        return list(admin.reset_identity(connection))


def release(outbox: Outbox, *, sent: bool) -> int:
    with outbox.connect() as connection:
        return admin.release_shard(connection, 0, sent=sent)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"shards": 2}, r"shards is 2 \(recorded: 1\)"),
        ({"transactional_id_prefix": "another"}, r"transactional_id_prefix is another \(recorded: workorders-outbox\)"),
        ({"checkpoint_topic": "another-checkpoints"}, r"checkpoint_topic is another-checkpoints \(recorded: outbox_"),
    ],
)
def test_a_relay_that_differs_sends_nothing_until_the_identity_is_reset(
    outbox: Outbox, topics: Topics, name: str, changes: dict[str, Any], reported: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    outbox.relay()
    more = write(outbox, name, MESSAGES)
    with pytest.raises(
        OutboxIdentityError, match=rf"^This relay differs from the outbox's recorded identity: {reported}"
    ):
        outbox.relay(**changes)
    assert_exactly_once(outbox.values(name), expected)
    assert reset(outbox) == []
    outbox.relay(**changes)
    assert_whole(outbox, name, expected + more)
    with pytest.raises(OutboxIdentityError):
        outbox.relay()


@pytest.mark.parametrize("step", ["checkpoint read", "settled", "acknowledged", "committed"])
def test_a_relay_of_before_changes_nothing_once_the_identity_is_reset(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    """Its producer has another transactional id, so nothing but its epoch keeps it from claiming and sending."""
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that(step, "SIGSTOP", outbox) as zombie:
        outbox.leases_run_out()
        if outbox.ask("SELECT * FROM workorders.outbox_claims"):
            with pytest.raises(OutboxDecisionError, match="left an open batch of shard 0"):
                reset(outbox)
            outbox.relay()
        assert reset(outbox) == []
        changed = {"shards": 2, "transactional_id_prefix": "another"}
        expected += write(outbox, name, MESSAGES)
        outbox.relay(**changed)
        assert_whole(outbox, name, expected)
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    expected += write(outbox, name, 2 * MESSAGES)
    outbox.relay(**changed)
    assert_whole(outbox, name, expected)


def test_a_relay_of_before_sends_nothing_between_the_reset_and_the_next_relay(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    """No relay has taken its shard since, so nothing but the reset has fenced it."""
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that("checkpoint read", "SIGSTOP", outbox) as zombie:
        outbox.leases_run_out()
        assert reset(outbox) == []
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    assert outbox.values(name) == []
    outbox.relay(transactional_id_prefix="another")
    assert_whole(outbox, name, expected)


def test_the_identity_is_not_reset_while_a_relay_is_at_work(outbox: Outbox) -> None:
    with outbox.connect() as connection:
        lease = leases.take(connection, 3, "a relay")
        assert lease is not None
        with pytest.raises(OutboxDecisionError, match=r"at work on shard 3 of the outbox\. The identity was not"):
            admin.reset_identity(connection)
        leases.renew(connection, lease)


@pytest.mark.parametrize("step", ["first committed", "committed"])
def test_a_checkpoint_topic_that_is_lost_while_a_batch_is_open_stops_the_outbox_until_an_operator_decides(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed(step, outbox)
    sent = len(outbox.values(name))
    topics.delete(outbox.definition.checkpoint_topic)
    with pytest.raises(OutboxIdentityError, match="checkpoint_topic_id is "):
        outbox.relay()
    assert len(outbox.values(name)) == sent
    with pytest.raises(OutboxDecisionError, match="release --shard 0"):
        reset(outbox)
    assert release(outbox, sent=True) > 0
    assert reset(outbox) == [0]
    outbox.relay()
    assert_whole(outbox, name, expected)


def test_a_batch_of_another_cluster_is_not_decided_about(outbox: Outbox, topics: Topics, name: str) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed("claimed", outbox)
    outbox.ask("UPDATE workorders.outbox_identity SET cluster_id = 'another'")
    with pytest.raises(OutboxIdentityError, match=r"cluster_id is .* \(recorded: another\)"):
        outbox.relay()
    assert release(outbox, sent=False) > 0
    assert reset(outbox) == [0]
    outbox.relay()
    assert_whole(outbox, name, expected)


def test_the_old_producer_of_a_released_shard_is_fenced_before_shards_and_transactional_ids_can_change(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    """No relay has fenced it yet, and it would be fenced by no other transactional id."""
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that("acknowledged", "SIGSTOP", outbox) as zombie:
        outbox.leases_run_out()
        assert release(outbox, sent=False) > 0
        assert reset(outbox) == [0]
        for changed in ({"shards": 2}, {"transactional_id_prefix": "another"}):
            with pytest.raises(OutboxIdentityError):
                outbox.relay(**changed)
        outbox.relay()
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    assert reset(outbox) == []
    expected += write(outbox, name, MESSAGES)
    outbox.relay(shards=2, transactional_id_prefix="another")
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize(
    ("partitions", "policy", "reported"),
    [
        (3, "compact", "has 3 partitions and needs 16, "),
        (16, "compact,delete", "has cleanup.policy=compact,delete and needs compact: "),
    ],
)
def test_a_topic_of_checkpoints_in_which_they_would_not_last_is_refused(
    outbox: Outbox, topics: Topics, partitions: int, policy: str, reported: str
) -> None:
    topic = topics.create(outbox.definition.checkpoint_topic, partitions, config={"cleanup.policy": policy})
    write(outbox, "orders")
    with pytest.raises(CheckpointTopicError, match=f"^The topic {topic}, .* {re.escape(reported)}"):
        outbox.relay()
    assert outbox.waiting() == MESSAGES
    assert outbox.ask("SELECT * FROM workorders.outbox_holds") == []
