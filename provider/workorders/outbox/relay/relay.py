"""Relays a shard of the outbox: takes its lease, and sends until nothing waits or the time is over."""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import psycopg
from psycopg_pool import ConnectionPool

from workorders.core import identities
from workorders.core.exceptions import one_line
from workorders.core.postgres.client_connection import ClientConnection
from workorders.core.postgres.connection import NO_PREPARED_STATEMENTS, Connection, connect, connection_string
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.relay.checkpoints import Checkpoints
from workorders.outbox.relay.context import RelayContext
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.lease_heartbeat import LeaseHeartbeat
from workorders.outbox.relay.producer import ProducerFencedOrLostError, TransactionalProducer
from workorders.outbox.relay.shard import ShardRelay
from workorders.outbox.relay.topic_metadata import TopicMetadataCache
from workorders.outbox.store import leases, settings
from workorders.outbox.store.claims import prune_sent_log
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.settings import Identity

log: Final = logging.getLogger(__name__)

_APPLICATION: Final = "workorders outbox relay"
MIN_WAIT: Final = 0.02
MAX_WAIT: Final = 0.25
_PRUNE_EVERY_SECONDS: Final = 60.0
_PRUNE_SECONDS: Final = 0.25
_PRUNE_REST_SECONDS: Final = 5.0
"""After this time the rest of what has expired is deleted, because sending comes first."""
_MAX_PRODUCER_FAILURES: Final = 3
_MAX_SECONDS_AFTER_FAILURE: Final = 300.0
"""A relay that had to hold something ends after this time, even if there is more to send, because people see its end in
Airflow. If failures are frequent, ending with each one would cost all other messages a start each time."""


@dataclass(slots=True)
class RelayResult:
    """What a relay did."""

    messages: int = 0
    #: One sentence for each message or topic that was held.
    failures: list[str] = field(default_factory=list)


def run_relay(
    connections: JobSecrets,
    definition: RelayDefinition,
    *,
    shard: int = 0,
    idle_timeout: float = 0.0,
    max_duration: float = 3600.0,
    stopped: Callable[[], bool] = lambda: False,
) -> RelayResult:
    """Send the waiting messages of a shard. It ends when another relay takes the shard.

    Args:
        connections: to Postgres and Kafka.
        definition: how to send.
        shard: number of the shard.
        idle_timeout: seconds after the last message after which it ends; it waits as long for the lease.
        max_duration: seconds after which it ends even if more messages wait.
        stopped: called between two batches; it ends once that returns True.

    Raises:
        KafkaUnavailableError: the cluster repeatedly does not answer.
        OutboxContradictionError: checkpoint and database contradict each other.
        OutboxIdentityError: this relay differs from the outbox's recorded identity.
        SchemaError: new messages would be sent before older ones, because the sequence of their numbers is behind.
        psycopg.Error: the database failed.
    """
    url, kafka = connections.database_url, client_settings(connections.kafka)
    prefix, result, now = definition.transactional_id_prefix, RelayResult(), time.monotonic()
    with (
        _connected(url, definition) as connection,
        # However this ends, all that is entered after the lease ends before it is released.
        _leased(connection, definition, shard, now + min(idle_timeout, max_duration), stopped) as lease,
    ):
        if lease is None:
            return result
        identities.require_ahead(connection)
        with LeaseHeartbeat(url, lease), _pool(url) as pool, ThreadPoolExecutor(1, "outbox relay") as executor:
            outbox_id, signing_key = settings.id_and_checkpoint_key(connection)
            checkpoints = Checkpoints(kafka, definition.checkpoint_topic, outbox_id, signing_key)

            def identity() -> Identity:
                cluster_id, topic_id = checkpoints.ensure_topic()
                return Identity(definition.shards, prefix, cluster_id, definition.checkpoint_topic, topic_id)

            listed = definition.topics.keys() if definition.only_listed_topics else None
            context = RelayContext(
                definition=definition,
                checkpoints=checkpoints,
                # Asked meanwhile, because it may take a while to create the checkpoint topic.
                identity=executor.submit(identity).result,
                topics=TopicMetadataCache(KafkaAdmin(kafka), definition.checkpoint_topic, listed),
                new_producer=lambda: TransactionalProducer(definition, kafka, f"{prefix}-{outbox_id}-{shard}"),
                pool=pool,
                executor=executor,
                failures=result.failures,
            )
            with closing(ShardRelay(connection, lease, context)) as relay:
                _send(connection, relay, definition, result, idle_timeout, now + max_duration, stopped)
    return result


@contextmanager
def _connected(database_url: str, definition: RelayDefinition) -> Iterator[Connection]:
    """Open the relay's connection, and store the settings that callers of `enqueue` need."""
    with connect(database_url, application_name=_APPLICATION, session=leases.SESSION) as connection:
        settings.save(
            connection,
            max_message_bytes=definition.max_message_bytes,
            topics={name: topic.max_message_bytes for name, topic in definition.topics.items()},
            only_listed_topics=definition.only_listed_topics,
        )
        yield connection


@contextmanager
def _leased(
    connection: Connection, definition: RelayDefinition, shard: int, until: float, stopped: Callable[[], bool]
) -> Iterator[Lease | None]:
    """Take the lease of a shard; None if another relay has it until then.

    The error with which the work on the shard ends is recorded where people see it. If the lease is lost, the work ends
    without an error, because another relay continues it.
    """
    owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
    while (lease := leases.take(connection, shard, owner, shards=definition.shards)) is None:
        if stopped() or time.monotonic() >= until:
            yield None
            return
        time.sleep(MAX_WAIT)
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


def _pool(database_url: str) -> ConnectionPool[ClientConnection]:
    return ConnectionPool(
        connection_string(database_url, _APPLICATION, leases.SESSION),
        connection_class=ClientConnection,
        kwargs={"prepare_threshold": NO_PREPARED_STATEMENTS},
        min_size=0,
        # A prefetcher that was stopped may still have its connection when the next one starts.
        max_size=2,
        check=ConnectionPool.check_connection,
        open=False,
    )


def _send(  # noqa: PLR0917 - the loop of `run_relay`
    connection: Connection,
    relay: ShardRelay,
    definition: RelayDefinition,
    result: RelayResult,
    idle_timeout: float,
    deadline: float,
    stopped: Callable[[], bool],
) -> None:
    """Send until nothing has waited for a while."""
    relay.recover()
    wait, idle_since, prune_at, lost_producers = MIN_WAIT, time.monotonic(), 0.0, 0
    while not stopped() and time.monotonic() < deadline:
        if time.monotonic() >= prune_at:
            is_pruned = prune_sent_log(connection, older_than=definition.retention, max_seconds=_PRUNE_SECONDS)
            prune_at = time.monotonic() + (_PRUNE_EVERY_SECONDS if is_pruned else _PRUNE_REST_SECONDS)
        try:
            worked = relay.step()
        except ProducerFencedOrLostError as error:
            # A rejected message may have cost the producer; several tries find that message.
            lost_producers += error.failures is None
            if lost_producers >= _MAX_PRODUCER_FAILURES:
                raise
            log.warning("%s", error)
            # A newer relay's producer may have fenced ours. Its lease has a higher epoch then, and ours ends here.
            leases.renew(connection, relay.lease)
            relay.recover()
            worked = True
        if relay.sent > result.messages:
            result.messages, lost_producers = relay.sent, 0
        if result.failures:
            deadline = min(deadline, time.monotonic() + _MAX_SECONDS_AFTER_FAILURE)
        if worked:
            wait, idle_since = MIN_WAIT, time.monotonic()
        elif time.monotonic() - idle_since >= idle_timeout:
            break
        else:
            time.sleep(wait)
            wait = min(wait * 1.5, MAX_WAIT)
    relay.finish()
    leases.record_error(connection, relay.lease, None)
