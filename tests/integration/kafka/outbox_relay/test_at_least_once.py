"""Without transactions: messages may come again, but none is lost, and what comes first of each is in order."""

import signal

import pytest

from local_stack.stack import LocalStack
from support.consumed import consumed
from support.outbox import Outbox, new_outbox
from support.outbox_load import Load
from support.relay_process import PLAIN_STEPS
from support.stopped_relay import MESSAGES, assert_at_least_once, killed, relay_that, write
from support.topics import Topics

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, batch_messages=50, mode="at-least-once")


@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("step", PLAIN_STEPS)
def test_a_relay_that_is_killed_loses_nothing_and_what_it_repeats_has_the_same_event_id(
    outbox: Outbox, topics: Topics, name: str, step: str, mode: str
) -> None:
    """Also when the next relay sends with transactions."""
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed(step, outbox)
    expected += write(outbox, name, MESSAGES)
    outbox.drain(mode=mode, add_event_id=True)
    assert_at_least_once(outbox, name, expected)
    found = {
        (message.value(), dict(message.headers() or []).get("event-id")) for message in consumed(outbox.kafka, name)
    }
    assert len(found) == len(expected)


@pytest.mark.parametrize("step", PLAIN_STEPS)
def test_a_zombie_may_repeat_what_was_sent_and_deletes_nothing(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that(step, "SIGSTOP", outbox) as zombie:
        outbox.leases_run_out()
        expected += write(outbox, name, MESSAGES)
        outbox.drain()
        assert_at_least_once(outbox, name, expected)
        expected += write(outbox, name, 2 * MESSAGES)
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    outbox.drain()
    assert_at_least_once(outbox, name, expected)


def test_the_broker_dies_and_comes_back(stack: LocalStack, outbox: Outbox, topics: Topics, name: str) -> None:
    load = Load(outbox, [topics.create(f"{name}-{number}", partitions=2) for number in range(2)])
    with load.running(relays=1):
        load.until_written(150)
        stack.kafka.kill()
        load.until_written(150)
        stack.kafka.start()
        load.until_written(150)
    outbox.drain()
    load.assert_right(repeats=True)
