"""The shards whose leases a relay has."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from uuid import uuid4

import psycopg

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.context import RelayContext
from workorders.kafka.outbox_relay.lease_heartbeat import LeaseHeartbeat
from workorders.kafka.outbox_relay.shard import ShardRelay
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store import leases
from workorders.outbox.store.leases import Lease


class ShardLeases:
    """The shards whose leases a relay has."""

    def __init__(
        self, connection: Connection, heartbeat: LeaseHeartbeat, context: RelayContext, shards: Sequence[int] | None
    ) -> None:
        self._connection = connection
        self._heartbeat = heartbeat
        self._context = context
        self._shards = range(context.definition.shards) if shards is None else shards
        self._owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
        self._relays: dict[int, ShardRelay] = {}

    def relays(self) -> list[ShardRelay]:
        """Return the relay of each shard that is leased."""
        return list(self._relays.values())

    def take(self) -> None:
        """Take the shards that are free."""
        for shard in self._shards:
            if shard not in self._relays:
                lease = leases.take(self._connection, shard, self._owner, shards=self._context.definition.shards)
                if lease is not None:
                    self._start(lease)

    def drop(self, relay: ShardRelay) -> None:
        """Forget a shard whose lease was lost."""
        relay.close()
        del self._relays[relay.lease.shard]
        self._renew_all()

    def release_all(self) -> None:
        """Release the leases, so that the next relay need not wait until they expire."""
        self._heartbeat.keep(())
        for relay in self.relays():
            relay.close()
        # If the database is down, the leases expire.
        with suppress(psycopg.Error):
            self._connection.rollback()
            for relay in self.relays():
                leases.release(self._connection, relay.lease)

    def _start(self, lease: Lease) -> None:
        relay = ShardRelay(self._connection, lease, self._context)
        self._relays[lease.shard] = relay
        self._renew_all()
        with recording_errors(self._connection, lease):
            relay.recover()

    def _renew_all(self) -> None:
        self._heartbeat.keep(relay.lease for relay in self._relays.values())


@contextmanager
def recording_errors(connection: Connection, lease: Lease) -> Iterator[None]:
    """Record the error with which the work on a shard ends where people see it, and raise it."""
    try:
        yield
    except OutboxFencedError:
        # Another relay reports on the shard now.
        raise
    except Exception as error:
        # If the database is down, only the task's log has the error.
        with suppress(psycopg.Error):
            connection.rollback()
            leases.record_error(connection, lease, one_line(error))
        raise


@contextmanager
def shard_leases(
    connection: Connection, heartbeat: LeaseHeartbeat, context: RelayContext, shards: Sequence[int] | None
) -> Iterator[ShardLeases]:
    """Start with no lease, and release all leases at every end.

    Args:
        connection: the relay's.
        heartbeat: renews the leases.
        context: what the shards share.
        shards: take no others; every one that is free unless given.
    """
    held = ShardLeases(connection, heartbeat, context, shards)
    try:
        yield held
    finally:
        held.release_all()
