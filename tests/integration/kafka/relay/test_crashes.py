"""Relays that are killed or stopped at any step: every committed message is in Kafka once, in the order of its key."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from local_stack.stack import CHECKOUT, LocalStack
from support.outbox import Outbox, assert_exactly_once, new_outbox
from support.relay_process import DEFINITION_VARIABLE, STEPS
from support.topics import Topics
from workorders.outbox import OutboxMessage

pytestmark = pytest.mark.integration

MESSAGES = 300
PYTHON_PATH = os.pathsep.join(str(CHECKOUT / folder) for folder in ("provider", "include", "tests"))


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, batch_messages=100)


@contextmanager
def relay_that(step: str, signal_: str, outbox: Outbox) -> Iterator["subprocess.Popen[str]"]:
    """Start a relay and wait until it has come to the step, where it kills or stops itself."""
    environment = {
        **os.environ,
        **outbox.connections.to_environment(),
        DEFINITION_VARIABLE: outbox.definition.model_dump_json(),
        "PYTHONPATH": PYTHON_PATH,
    }
    command = [sys.executable, "-m", "support.relay_process", step, signal_]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "reached\n"
            yield process
        finally:
            process.kill()


def write(outbox: Outbox, topic: str, start: int = 0) -> list[bytes]:
    values = [b"%d-%d" % (n % 7, n) for n in range(start, start + MESSAGES)]
    outbox.write(*(OutboxMessage(topic=topic, key=value.split(b"-")[0], value=value) for value in values))
    return values


def leases_run_out(outbox: Outbox) -> None:
    """What a quarter of a minute does, by the database's clock."""
    outbox.ask("UPDATE workorders.outbox_shards SET leased_until = clock_timestamp() - interval '1 second'")


def assert_whole(outbox: Outbox, topic: str, expected: list[bytes]) -> None:
    found = [value or b"" for value in outbox.values(topic)]
    assert_exactly_once(found, expected)
    for key in range(7):
        mine = [int(value.split(b"-")[1]) for value in found if value.startswith(b"%d-" % key)]
        assert mine == sorted(mine)
    assert outbox.waiting() == 0
    assert outbox.ask("SELECT * FROM workorders.outbox_claims") == []


@pytest.mark.parametrize("step", STEPS)
def test_a_relay_killed_at_a_step_loses_nothing_and_sends_nothing_twice(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that(step, "SIGKILL", outbox) as process:
        assert process.wait(30) == -signal.SIGKILL
    leases_run_out(outbox)
    expected += write(outbox, name, MESSAGES)
    outbox.drain()
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize("step", ["fenced", "marker read", "claimed", "acknowledged", "committed"])
def test_a_zombie_changes_nothing_on_either_side(outbox: Outbox, topics: Topics, name: str, step: str) -> None:
    """A relay that was stopped goes on after another one has taken its shard and has sent everything."""
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that(step, "SIGSTOP", outbox) as zombie:
        leases_run_out(outbox)
        expected += write(outbox, name, MESSAGES)
        outbox.drain()
        assert_whole(outbox, name, expected)
        expected += write(outbox, name, 2 * MESSAGES)
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    outbox.drain()
    assert_whole(outbox, name, expected)


def test_no_transaction_is_open_in_postgres_while_kafka_is_waited_for(
    outbox: Outbox, topics: Topics, name: str
) -> None:
    """It would keep dead rows of the whole server from being removed."""
    topics.create(name)
    write(outbox, name)
    with relay_that("acknowledged", "SIGSTOP", outbox):
        states = outbox.ask(
            """
            SELECT state FROM pg_stat_activity
            WHERE application_name = 'workorders outbox relay' AND datname = current_database()
            """
        )
    assert ("idle in transaction",) not in states
    assert ("idle",) in states
