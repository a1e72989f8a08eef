"""Which shards a relay holds: those that are free, once those of an older division are settled."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from uuid import uuid4

import psycopg

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.context import Tools
from workorders.kafka.outbox_relay.lease_heartbeat import Heartbeat
from workorders.kafka.outbox_relay.shard import ShardRelay
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store import leases, settings
from workorders.outbox.store.leases import Lease


class HeldShards:
    """The shards whose leases a relay has."""

    def __init__(
        self,
        connection: Connection,
        heartbeat: Heartbeat,
        new_tools: Callable[[], Tools],
        *,
        asked: Sequence[int] | None,
    ) -> None:
        #: For the settings that were in force when shards were taken.
        self.tools = new_tools()
        self._connection = connection
        self._heartbeat = heartbeat
        self._new_tools = new_tools
        self._asked = asked
        self._owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
        self._held: dict[int, ShardRelay] = {}

    def all(self) -> list[ShardRelay]:
        """Return the relays of all that are held."""
        return list(self._held.values())

    def take(self) -> bool:
        """Take the shards that are free, those of an older division first; say whether all of the old are settled."""
        current = settings.current(self._connection)
        self._connection.commit()
        if current.generation != self.tools.settings.generation:
            for relay in self.all():
                relay.finish()
                leases.release(self._connection, relay.lease)
                self.lost(relay)
            self.tools = self._new_tools()
        self._settle_old_division()
        if leases.unsettled(self._connection):
            return False
        for shard in range(current.shards) if self._asked is None else self._asked:
            if shard not in self._held and shard < current.shards:
                lease = leases.take(self._connection, shard, self._owner)
                if lease is not None:
                    self._begin(lease)
        return True

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

    def _settle_old_division(self) -> None:
        for shard in leases.unsettled(self._connection):
            lease = leases.take(self._connection, shard, self._owner)
            if lease is None:
                continue
            try:
                with noting(self._connection, lease):
                    ShardRelay(self._connection, lease, self.tools).recover()
                    leases.settle(self._connection, lease)
            finally:
                leases.release(self._connection, lease)

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
    connection: Connection, heartbeat: Heartbeat, new_tools: Callable[[], Tools], *, asked: Sequence[int] | None
) -> Iterator[HeldShards]:
    """Hold no shard yet; give back all leases at the end, however that comes.

    Args:
        connection: the relay's.
        heartbeat: what keeps the leases.
        new_tools: returns what the shards share, for the settings in force.
        asked: hold no others; every one that is free unless given.
    """
    held = HeldShards(connection, heartbeat, new_tools, asked=asked)
    try:
        yield held
    finally:
        held.give_back()
