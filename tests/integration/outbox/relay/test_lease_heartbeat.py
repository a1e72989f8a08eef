"""A lease is renewed while Kafka takes its time, and a renewal that does not end delays no other relay for long."""

import threading

import pytest

from local_stack.stack import LocalStack
from support.outbox import Outbox, new_outbox
from workorders.core.postgres.connection import Connection
from workorders.outbox.relay.lease_heartbeat import LeaseHeartbeat
from workorders.outbox.store import leases
from workorders.outbox.store.leases import Lease

pytestmark = pytest.mark.integration


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack)


def test_a_relay_that_stops_during_a_renewal_holds_its_shard_no_longer(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres ends the renewal before the lease is over, and another relay need not wait for longer."""
    renewed, continued = threading.Event(), threading.Event()

    def stopped(connection: Connection, lease: Lease) -> None:
        with connection.transaction():
            connection.execute("SELECT FROM workorders.outbox_shards WHERE shard = %s FOR UPDATE", [lease.shard])
            renewed.set()
            continued.wait(120)

    with outbox.connect() as connection:
        lease = leases.take(connection, 0, "a test")
    assert lease is not None
    monkeypatch.setattr(leases, "renew", stopped)
    with LeaseHeartbeat(outbox.database_url, lease, every=0.05):
        try:
            assert renewed.wait(30)
            with outbox.connect() as connection:
                connection.execute("SET LOCAL lock_timeout = '60s'")
                connection.execute("SELECT FROM workorders.outbox_shards WHERE shard = 0 FOR UPDATE")
        finally:
            continued.set()
