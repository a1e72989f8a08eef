"""Relays a shard of the outbox: takes its lease, and sends until nothing waits or the time is over."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final
from uuid import uuid4

import psycopg

from workorders.core import schema
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.shard import RelayResult, ShardRelay
from workorders.outbox.store import leases
from workorders.outbox.store.leases import LEASE_SECONDS, Lease

log: Final = logging.getLogger(__name__)

_LEASE_WAIT: Final = 0.25


def run_relay(
    connections: JobSecrets,
    definition: RelayDefinition,
    *,
    shard: int = 0,
    stopped: Callable[[], bool] = lambda: False,
) -> RelayResult:
    """Send the waiting messages of a shard. It ends when another relay takes the shard.

    It waits for its lease, and for more messages, for the `linger` of the definition, and ends after its
    `max_task_duration` even if more messages wait, or between two batches once `stopped` returns True.

    Raises:
        KafkaUnavailableError: the cluster repeatedly does not answer.
        OutboxContradictionError: checkpoint and database contradict each other.
        OutboxIdentityError: this relay differs from the outbox's recorded identity.
        SchemaError: new messages would be sent before older ones, because the sequence of their numbers is behind.
        psycopg.Error: the database failed.
    """
    url, result, begun = connections.database_url, RelayResult(), time.monotonic()
    with (
        connect(url, application_name="workorders outbox relay", session=leases.SESSION) as connection,
        _leased(connection, definition, shard, stopped) as lease,
    ):
        if lease is not None:
            schema.require_sequences_ahead(connection)
            with renewed(url, lease):
                relay = ShardRelay(connection, lease, definition, client_settings(connections.kafka), result)
                relay.run(begun + definition.max_task_duration, stopped)
    return result


@contextmanager
def _leased(
    connection: Connection, definition: RelayDefinition, shard: int, stopped: Callable[[], bool]
) -> Iterator[Lease | None]:
    """Take the lease of a shard; None if another relay keeps it.

    The error with which the work on the shard ends is recorded where people see it. If the lease is lost, the work ends
    without an error, because another relay continues it.
    """
    until = time.monotonic() + min(definition.linger, definition.max_task_duration)
    owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
    while (lease := leases.take(connection, shard, owner, shards=definition.shards)) is None:
        if stopped() or time.monotonic() >= until:
            yield None
            return
        time.sleep(_LEASE_WAIT)
    try:
        yield lease
    except OutboxFencedError as error:
        log.warning("%s", error)
    except Exception as error:
        # If the database is down, only the task's log has the error.
        with suppress(psycopg.Error):
            connection.rollback()
            leases.record_error(connection, lease, one_line(error))
        raise
    finally:
        # So that the next relay need not wait until the lease expires, as it does if the database is down.
        with suppress(psycopg.Error):
            connection.rollback()
            leases.release(connection, lease)


@contextmanager
def renewed(database_url: str, lease: Lease, *, every: float = LEASE_SECONDS / 3) -> Iterator[None]:
    """Renew a lease while Kafka takes its time, in a separate thread and connection.

    A failed renewal stops nothing by itself: if the lease was lost, the next write finds the higher epoch.
    """
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(every):
            try:
                # With the relay's timeouts: one that is paused between renewal and commit has its shard's row locked.
                with connect(
                    database_url, application_name="workorders outbox heartbeat", session=leases.SESSION
                ) as connection:
                    leases.renew(connection, lease)
            except OutboxFencedError as error:
                log.warning("%s", error)
                return
            except psycopg.Error as error:
                log.warning("The lease of the outbox's shard could not be renewed: %s", one_line(error))

    thread = threading.Thread(target=renew, name="outbox heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
