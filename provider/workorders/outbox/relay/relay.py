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

from workorders.core import identities
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.shard import RelayResult, ShardRelay
from workorders.outbox.store import leases, settings
from workorders.outbox.store.claims import prune_sent_log
from workorders.outbox.store.leases import LEASE_SECONDS, Lease

log: Final = logging.getLogger(__name__)

_MIN_WAIT: Final = 0.02
_MAX_WAIT: Final = 0.25
_PRUNE_EVERY_SECONDS: Final = 60.0
_PRUNE_SECONDS: Final = 0.25
_PRUNE_REST_SECONDS: Final = 5.0
"""After this time the rest of what has expired is deleted, because sending comes first."""
_MAX_SECONDS_AFTER_FAILURE: Final = 300.0
"""A relay that had to hold something ends after this time, even if there is more to send, because people see its end in
Airflow. If failures are frequent, ending with each one would cost all other messages a start each time."""


def run_relay(
    connections: JobSecrets,
    definition: RelayDefinition,
    *,
    shard: int = 0,
    linger: float = 0.0,
    max_duration: float = 3600.0,
    stopped: Callable[[], bool] = lambda: False,
) -> RelayResult:
    """Send the waiting messages of a shard. It ends when another relay takes the shard.

    Args:
        connections: to Postgres and Kafka.
        definition: how to send.
        shard: number of the shard.
        linger: seconds for which it waits for more messages before it ends; it waits as long for the lease.
        max_duration: seconds after which it ends even if more messages wait.
        stopped: called between two batches; it ends once that returns True.

    Raises:
        KafkaUnavailableError: the cluster repeatedly does not answer.
        OutboxContradictionError: checkpoint and database contradict each other.
        OutboxIdentityError: this relay differs from the outbox's recorded identity.
        SchemaError: new messages would be sent before older ones, because the sequence of their numbers is behind.
        psycopg.Error: the database failed.
    """
    url, result, now = connections.database_url, RelayResult(), time.monotonic()
    with (
        connect(url, application_name="workorders outbox relay", session=leases.SESSION) as connection,
        _leased(connection, definition, shard, now + min(linger, max_duration), stopped) as lease,
    ):
        if lease is not None:
            identities.require_ahead(connection)
            with renewed(url, lease):
                relay = ShardRelay(connection, lease, definition, client_settings(connections.kafka), result)
                relay.start()
                _send(connection, relay, definition, result, linger, now + max_duration, stopped)
                leases.record_error(connection, lease, None)
    return result


@contextmanager
def _leased(
    connection: Connection, definition: RelayDefinition, shard: int, until: float, stopped: Callable[[], bool]
) -> Iterator[Lease | None]:
    """Store the settings that `enqueue` needs, and take the lease of a shard; None if another relay has it until then.

    The error with which the work on the shard ends is recorded where people see it. If the lease is lost, the work ends
    without an error, because another relay continues it.
    """
    settings.save(
        connection,
        max_message_bytes=definition.max_message_bytes,
        topics={name: topic.max_message_bytes for name, topic in definition.topics.items()},
        only_listed_topics=definition.only_listed_topics,
    )
    owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
    while (lease := leases.take(connection, shard, owner, shards=definition.shards)) is None:
        if stopped() or time.monotonic() >= until:
            yield None
            return
        time.sleep(_MAX_WAIT)
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
    """Renew a lease while Kafka takes its time, in a thread and with a connection of its own.

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


def _send(  # noqa: PLR0917 - the loop of `run_relay`
    connection: Connection,
    relay: ShardRelay,
    definition: RelayDefinition,
    result: RelayResult,
    linger: float,
    deadline: float,
    stopped: Callable[[], bool],
) -> None:
    """Send until nothing has waited for a while."""
    wait, idle_since, prune_at = _MIN_WAIT, time.monotonic(), 0.0
    while not stopped() and time.monotonic() < deadline:
        if time.monotonic() >= prune_at:
            is_pruned = prune_sent_log(connection, older_than=definition.retention, max_seconds=_PRUNE_SECONDS)
            prune_at = time.monotonic() + (_PRUNE_EVERY_SECONDS if is_pruned else _PRUNE_REST_SECONDS)
        if relay.step():
            wait, idle_since = _MIN_WAIT, time.monotonic()
        elif time.monotonic() - idle_since >= linger:
            break
        else:
            time.sleep(wait)
            wait = min(wait * 1.5, _MAX_WAIT)
        if result.failures:
            deadline = min(deadline, time.monotonic() + _MAX_SECONDS_AFTER_FAILURE)
    relay.finish()
