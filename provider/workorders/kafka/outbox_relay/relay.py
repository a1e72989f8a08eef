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

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import NO_PREPARED_STATEMENTS, Connection, connect, connection_string
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.outbox_relay.checkpoints import Checkpoints
from workorders.kafka.outbox_relay.context import RelayContext
from workorders.kafka.outbox_relay.definition import RelayDefinition
from workorders.kafka.outbox_relay.lease_heartbeat import LeaseHeartbeat
from workorders.kafka.outbox_relay.producer import ProducerFencedOrLostError, TransactionalProducer
from workorders.kafka.outbox_relay.shard import ShardRelay
from workorders.kafka.outbox_relay.topic_metadata import TopicMetadataCache
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store import leases, settings
from workorders.outbox.store.claims import prune_sent_log
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.settings import Identity

log: Final = logging.getLogger(__name__)

_APPLICATION: Final = "workorders outbox relay"
MIN_WAIT: Final = 0.02
MAX_WAIT: Final = 0.25
_TAKE_EVERY_SECONDS: Final = 5.0
_PRUNE_EVERY_SECONDS: Final = 60.0
_PRUNE_SECONDS: Final = 0.25
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
    """Send the waiting messages of a shard; wait for its lease if another relay has it.

    Args:
        connections: to Postgres and Kafka.
        definition: how to send.
        shard: number of the shard.
        idle_timeout: seconds after the last message after which it ends.
        max_duration: seconds after which it ends even if more messages wait.
        stopped: called between two batches; it ends once that returns True.

    Raises:
        KafkaUnavailableError: the cluster repeatedly does not answer.
        OutboxContradictionError: checkpoint and database contradict each other.
        OutboxFencedError: another relay has taken the shard; messages may wait.
        OutboxIdentityError: this relay differs from the outbox's recorded identity.
        psycopg.Error: the database failed.
    """
    kafka, prefix, result = client_settings(connections.kafka), definition.transactional_id_prefix, RelayResult()
    with (
        connect(connections.database_url, application_name=_APPLICATION, session=leases.SESSION) as connection,
        LeaseHeartbeat(connections.database_url) as heartbeat,
    ):
        settings.save(
            connection,
            max_message_bytes=definition.max_message_bytes,
            topics={name: topic.max_message_bytes for name, topic in definition.topics.items()},
            only_listed_topics=definition.only_listed_topics,
        )
        pool = ConnectionPool(
            connection_string(connections.database_url, _APPLICATION, leases.SESSION),
            kwargs={"prepare_threshold": NO_PREPARED_STATEMENTS},
            min_size=0,
            # A prefetcher that was stopped may still have its connection when the next one starts.
            max_size=2,
            check=ConnectionPool.check_connection,
            open=False,
        )
        executor = ThreadPoolExecutor(1, "outbox relay")
        outbox_id, signing_key = settings.id_and_checkpoint_key(connection)
        checkpoints = Checkpoints(kafka, definition.checkpoint_topic, outbox_id, signing_key)

        def identity() -> Identity:
            cluster_id, topic_id = checkpoints.ensure_topic()
            return Identity(definition.shards, prefix, cluster_id, definition.checkpoint_topic, topic_id)

        context = RelayContext(
            definition=definition,
            checkpoints=checkpoints,
            # Asked meanwhile, because it may take a while to create the checkpoint topic.
            identity=executor.submit(identity).result,
            topics=TopicMetadataCache(
                KafkaAdmin(kafka),
                definition.checkpoint_topic,
                definition.topics.keys() if definition.only_listed_topics else None,
            ),
            new_producer=lambda: TransactionalProducer(definition, kafka, f"{prefix}-{outbox_id}-{shard}"),
            pool=pool,
            executor=executor,
            failures=result.failures,
        )
        # However this ends, the executor and the pool end before the lease is released.
        with closing(_Relay(connection, heartbeat, context, shard, result)) as relay, pool, executor:
            relay.run(idle_timeout, time.monotonic() + max_duration, stopped)
    return result


class _Relay:
    """The loop of one relay, which has the lease of its shard or waits for it."""

    def __init__(
        self, connection: Connection, heartbeat: LeaseHeartbeat, context: RelayContext, shard: int, result: RelayResult
    ) -> None:
        self._connection = connection
        self._heartbeat = heartbeat
        self._context = context
        self._number = shard
        self._result = result
        self._owner = f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}"
        self._shard: ShardRelay | None = None
        self._producer_failures = 0
        self._prune_at = 0.0

    def run(self, idle_timeout: float, deadline: float, stopped: Callable[[], bool]) -> None:
        """Send until nothing has waited for a while."""
        wait, take_at, idle_since = MIN_WAIT, 0.0, time.monotonic()
        while not stopped() and time.monotonic() < deadline:
            if time.monotonic() >= take_at:
                self._take_lease()
                self._prune_sent_log()
                take_at = time.monotonic() + _TAKE_EVERY_SECONDS
            worked = self._shard is not None and self._step(self._shard)
            if self._result.failures:
                deadline = min(deadline, time.monotonic() + _MAX_SECONDS_AFTER_FAILURE)
            if worked:
                wait, idle_since = MIN_WAIT, time.monotonic()
                continue
            if time.monotonic() - idle_since >= idle_timeout:
                break
            time.sleep(wait)
            wait = min(wait * 1.5, MAX_WAIT)
        if self._shard is not None:
            with recording_errors(self._connection, self._shard.lease):
                self._shard.finish()
                leases.record_error(self._connection, self._shard.lease, None)

    def close(self) -> None:
        """Release the lease, so that the next relay need not wait until it expires."""
        shard = self._drop()
        # If the database is down, the lease expires.
        if shard is not None:
            with suppress(psycopg.Error):
                self._connection.rollback()
                leases.release(self._connection, shard.lease)

    def _take_lease(self) -> None:
        if self._shard is not None:
            return
        lease = leases.take(self._connection, self._number, self._owner, shards=self._context.definition.shards)
        if lease is not None:
            self._shard = ShardRelay(self._connection, lease, self._context)
            self._heartbeat.keep(lease)
            with recording_errors(self._connection, lease):
                self._shard.recover()

    def _drop(self) -> ShardRelay | None:
        """Stop to work on the shard, and return what worked on it."""
        self._heartbeat.keep(None)
        shard, self._shard = self._shard, None
        if shard is not None:
            shard.close()
        return shard

    def _step(self, shard: ShardRelay) -> bool:
        before = shard.sent
        try:
            with recording_errors(self._connection, shard.lease):
                worked = self._step_or_recover(shard)
        except OutboxFencedError as error:
            log.warning("%s", error)
            self._drop()
            return False
        self._result.messages += shard.sent - before
        if shard.sent > before:
            self._producer_failures = 0
        return worked

    def _step_or_recover(self, shard: ShardRelay) -> bool:
        try:
            return shard.step()
        except ProducerFencedOrLostError as error:
            # A rejected message may have cost the producer; several tries find that message.
            self._producer_failures += error.failures is None
            if self._producer_failures >= _MAX_PRODUCER_FAILURES:
                raise
            log.warning("%s", error)
            # A newer relay's producer may have fenced ours. Its lease has a higher epoch then, and ours ends here.
            leases.renew(self._connection, shard.lease)
            shard.recover()
            return True

    def _prune_sent_log(self) -> None:
        if time.monotonic() < self._prune_at:
            return
        # The rest waits until the lease is looked after again, because sending comes first.
        retention = self._context.definition.retention
        if prune_sent_log(self._connection, older_than=retention, max_seconds=_PRUNE_SECONDS):
            self._prune_at = time.monotonic() + _PRUNE_EVERY_SECONDS


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
