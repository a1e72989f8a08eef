"""Relays that are killed or stopped at any step: every committed message is in Kafka once, in the order of its key."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.outbox import Outbox, new_outbox
from support.relay_process import STEPS
from support.stopped_relay import MESSAGES, assert_whole, killed, relay_that, write
from support.topics import Topics
from workorders.core.postgres.connection import Connection
from workorders.outbox.relay.producer import TransactionalProducer
from workorders.outbox.relay.relay import renewed
from workorders.outbox.store import leases
from workorders.outbox.store.leases import Lease

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack, max_messages=50)


@pytest.mark.parametrize("step", STEPS)
def test_a_relay_killed_at_a_step_loses_nothing_and_sends_nothing_twice(
    outbox: Outbox, topics: Topics, name: str, step: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed(step, outbox)
    expected += write(outbox, name, MESSAGES)
    outbox.relay()
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize("first", ["acknowledged", "committed"])
@pytest.mark.parametrize("second", ["fenced", "checkpoint read", "settled"])
def test_a_relay_killed_while_it_settles_what_another_left_loses_and_repeats_nothing(
    outbox: Outbox, topics: Topics, name: str, first: str, second: str
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    killed(first, outbox)
    assert outbox.ask("SELECT count(DISTINCT batch) FROM workorders.outbox_claims") == [(1,)]
    killed(second, outbox)
    expected += write(outbox, name, MESSAGES)
    outbox.relay()
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize(
    "step", ["fenced", "checkpoint read", "claiming", "claimed", "filled", "acknowledged", "committed"]
)
def test_a_zombie_changes_nothing_on_either_side(outbox: Outbox, topics: Topics, name: str, step: str) -> None:
    """A relay that was stopped continues after another one has taken its shard and has sent everything.

    Where it was stopped during a transaction of Postgres, the other one waits until Postgres has ended that.
    """
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that(step, "SIGSTOP", outbox) as zombie:
        outbox.leases_run_out()
        expected += write(outbox, name, MESSAGES)
        outbox.relay()
        assert_whole(outbox, name, expected)
        expected += write(outbox, name, 2 * MESSAGES)
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    outbox.relay()
    assert_whole(outbox, name, expected)


@pytest.mark.parametrize("successor", [True, False], ids=["another takes over", "none takes over"])
def test_a_relay_that_stops_until_kafka_ends_its_transaction_loses_and_repeats_nothing(
    outbox: Outbox, topics: Topics, name: str, *, successor: bool
) -> None:
    topics.create(name, partitions=2)
    expected = write(outbox, name)
    with relay_that("acknowledged", "SIGSTOP", outbox, seconds=8) as zombie:
        assert topics.is_transaction_open(name)
        eventually(lambda: not topics.is_transaction_open(name), seconds=120, what="The end of the transaction")
        if successor:
            outbox.leases_run_out()
            expected += write(outbox, name, MESSAGES)
            outbox.relay()
            assert_whole(outbox, name, expected)
        zombie.send_signal(signal.SIGCONT)
        zombie.wait(60)
    outbox.leases_run_out()
    expected += write(outbox, name, 2 * MESSAGES)
    outbox.relay()
    assert_whole(outbox, name, expected)


def test_no_transaction_is_open_in_postgres_while_kafka_is_waited_for(
    outbox: Outbox, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep dead rows of the whole server from being removed."""
    topics.create(name)
    expected = write(outbox, name)
    waits, answered = threading.Event(), threading.Event()
    commit = vars(TransactionalProducer)["_commit"]

    def slow_commit(sender: TransactionalProducer) -> Any:
        waits.set()
        answered.wait(120)
        return commit(sender)

    monkeypatch.setattr(TransactionalProducer, "_commit", slow_commit)
    with ThreadPoolExecutor(1) as relay:
        draining = relay.submit(outbox.relay)
        try:
            assert waits.wait(30)
            assert states(outbox) == ["idle"]
        finally:
            answered.set()
        draining.result(60)
    assert_whole(outbox, name, expected)


def states(outbox: Outbox) -> list[str]:
    """Return what the relay's connections are doing."""
    found = outbox.ask(
        """
        SELECT state FROM pg_stat_activity
        WHERE application_name = 'workorders outbox relay' AND datname = current_database()
        """
    )
    return [row[0] for row in found]


def test_a_relay_that_stops_during_a_renewal_holds_its_shard_no_longer(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres ends the renewal before the lease is over, and another relay need not wait for longer."""
    renewing, continued = threading.Event(), threading.Event()

    def stopped(connection: Connection, lease: Lease) -> None:
        with connection.transaction():
            connection.execute("SELECT FROM workorders.outbox_shards WHERE shard = %s FOR UPDATE", [lease.shard])
            renewing.set()
            continued.wait(120)

    with outbox.connect() as connection:
        lease = leases.take(connection, 0, "a test")
    assert lease is not None
    monkeypatch.setattr(leases, "renew", stopped)
    monkeypatch.setitem(leases.SESSION, "idle_in_transaction_session_timeout", "2s")
    with renewed(outbox.database_url, lease, every=0.05):
        try:
            assert renewing.wait(30)
            with outbox.connect() as connection:
                connection.execute("SET LOCAL lock_timeout = '60s'")
                connection.execute("SELECT FROM workorders.outbox_shards WHERE shard = 0 FOR UPDATE")
        finally:
            continued.set()
