"""Which shards a relay holds: those that are free."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from uuid import uuid4

import psycopg

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.context import Tools
from workorders.kafka.outbox_relay.lease_heartbeat import Heartbeat
from workorders.kafka.outbox_relay.shard import ShardRelay
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store import leases
from workorders.outbox.store.leases import Lease


class HeldShards:
    """The shards whose leases a relay has."""

    def __init__(
        self, connection: Connection, heartbeat: Heartbeat, tools: Tools, shards: Sequence[int] | None
    ) -> None:
        self.tools = tools
        self._connection = connection
        self._heartbeat = heartbeat
        self._shards = range(tools.definition.shards) if shards is None else shards
        self._owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
        self._held: dict[int, ShardRelay] = {}

    def all(self) -> list[ShardRelay]:
        """Return the relays of all that are held."""
        return list(self._held.values())

    def take(self) -> None:
        """Take the shards that are free."""
        for shard in self._shards:
            if shard not in self._held:
                lease = leases.take(self._connection, shard, self._owner, shards=self.tools.definition.shards)
                if lease is not None:
                    self._begin(lease)

    def lost(self, relay: ShardRelay) -> None:
        """Note that a lease is ours no longer."""
        relay.close()
        del self._held[relay.lease.shard]
        self._keep()

    def give_back(self) -> None:
        """Give the leases back at the end, so that the next relay need not wait until they run out."""
        self._heartbeat.keep(())
        for relay in self.all():
            relay.close()
        # Where the database is away, the leases run out by themselves.
        with suppress(psycopg.Error):
            self._connection.rollback()
            for relay in self.all():
                leases.release(self._connection, relay.lease)

    def _begin(self, lease: Lease) -> None:
        relay = ShardRelay(self._connection, lease, self.tools)
        self._held[lease.shard] = relay
        self._keep()
        with noting(self._connection, lease):
            relay.recover()

    def _keep(self) -> None:
        self._heartbeat.keep(relay.lease for relay in self._held.values())


@contextmanager
def noting(connection: Connection, lease: Lease) -> Iterator[None]:
    """Write the error with which the work on a shard ends where people see it, and raise it."""
    try:
        yield
    except OutboxFencedError:
        # The shard is somebody else's, and so is what is to be said of it.
        raise
    except Exception as error:
        # Where the database is away, the task's log has to do.
        with suppress(psycopg.Error):
            connection.rollback()
            leases.note_error(connection, lease, one_line(error))
        raise


@contextmanager
def held_shards(
    connection: Connection, heartbeat: Heartbeat, tools: Tools, shards: Sequence[int] | None
) -> Iterator[HeldShards]:
    """Hold no shard yet; give back all leases at the end, however that comes.

    Args:
        connection: the relay's.
        heartbeat: what keeps the leases.
        tools: what the shards share.
        shards: hold no others; every one that is free unless given.
    """
    held = HeldShards(connection, heartbeat, tools, shards)
    try:
        yield held
    finally:
        held.give_back()
