"""Relays the outbox: takes the shards that are free, and sends until nothing waits or the time is over."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from psycopg_pool import ConnectionPool

from workorders.core.postgres.connection import NO_PREPARED_STATEMENTS, Connection, connect, connection_string
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.outbox_relay.context import new_context
from workorders.kafka.outbox_relay.definition import RelayDefinition
from workorders.kafka.outbox_relay.lease_heartbeat import LeaseHeartbeat
from workorders.kafka.outbox_relay.producer import ProducerFencedOrLostError
from workorders.kafka.outbox_relay.shard import ShardRelay
from workorders.kafka.outbox_relay.shard_leases import ShardLeases, recording_errors, shard_leases
from workorders.kafka.outbox_relay.topic_metadata import ForbiddenTopics, TopicMetadataCache
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store import leases, sent_log, settings

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
    shards: Sequence[int] | None = None,
    idle_timeout: float = 0.0,
    max_duration: float = 3600.0,
    stopped: Callable[[], bool] = lambda: False,
) -> RelayResult:
    """Send the waiting messages.

    Args:
        connections: to Postgres and Kafka.
        definition: how to send.
        shards: take no others; every one that is free unless given.
        idle_timeout: seconds after the last message after which it ends.
        max_duration: seconds after which it ends even if more messages wait.
        stopped: called between two batches; it ends once that returns True.

    Raises:
        KafkaUnavailableError: the cluster repeatedly does not answer.
        OutboxContradictionError: checkpoint and database contradict each other.
        OutboxIdentityError: this relay differs from the outbox's recorded identity.
        psycopg.Error: the database failed.
    """
    kafka = client_settings(connections.kafka)
    listed = definition.topics.keys() if definition.only_listed_topics else None
    result = RelayResult()
    with (
        connect(connections.database_url, application_name=_APPLICATION, session=leases.SESSION) as connection,
        LeaseHeartbeat(connections.database_url) as heartbeat,
    ):
        _save_settings(connection, definition)
        pool = _pool(connections.database_url, definition)
        executor = ThreadPoolExecutor(1, "outbox relay")
        relay = _Relay(connection, definition, result)
        context = new_context(
            connection,
            kafka,
            definition,
            topics=TopicMetadataCache(KafkaAdmin(kafka), ForbiddenTopics(definition.checkpoint_topic, listed)),
            pool=pool,
            executor=executor,
            report_failure=relay.report_failure,
        )
        # However this ends, the executor and the pool end before the leases are released.
        with shard_leases(connection, heartbeat, context, shards) as held, pool, executor:
            relay.run(held, idle_timeout, time.monotonic() + max_duration, stopped)
    return result


def _save_settings(connection: Connection, definition: RelayDefinition) -> None:
    """Store the settings of the definition that callers of `enqueue` need."""
    with connection.transaction():
        settings.save(
            connection,
            max_message_bytes=definition.max_message_bytes,
            topics={name: topic.max_message_bytes for name, topic in definition.topics.items()},
            only_listed_topics=definition.only_listed_topics,
        )


def _pool(database_url: str, definition: RelayDefinition) -> ConnectionPool[Connection]:
    return ConnectionPool(
        connection_string(database_url, _APPLICATION, leases.SESSION),
        kwargs={"prepare_threshold": NO_PREPARED_STATEMENTS},
        min_size=0,
        # A prefetcher that was stopped may still have its connection when the next one starts.
        max_size=2 * definition.shards,
        check=ConnectionPool.check_connection,
        open=False,
    )


class _Relay:
    """The loop of one relay: the shards that it has take turns."""

    def __init__(self, connection: Connection, definition: RelayDefinition, result: RelayResult) -> None:
        self._connection = connection
        self._definition = definition
        self._result = result
        self._producer_failures: dict[int, int] = {}
        self._prune_at = 0.0
        self._failed_at = math.inf

    def run(self, held: ShardLeases, idle_timeout: float, deadline: float, stopped: Callable[[], bool]) -> None:
        """Send until nothing has waited for a while."""
        wait, take_at, idle_since = MIN_WAIT, 0.0, time.monotonic()
        while not stopped() and time.monotonic() < min(deadline, self._failed_at + _MAX_SECONDS_AFTER_FAILURE):
            if time.monotonic() >= take_at:
                held.take()
                self._prune_sent_log()
                take_at = time.monotonic() + _TAKE_EVERY_SECONDS
            # A sum instead of any(): every shard has its turn.
            if sum(self._step(held, relay) for relay in held.relays()):
                wait, idle_since = MIN_WAIT, time.monotonic()
                continue
            if time.monotonic() - idle_since >= idle_timeout:
                break
            time.sleep(wait)
            wait = min(wait * 1.5, MAX_WAIT)
        for relay in held.relays():
            with recording_errors(self._connection, relay.lease):
                relay.finish()
                leases.clear_error(self._connection, relay.lease)

    def report_failure(self, sentence: str) -> None:
        """Record a failure that was held."""
        log.error("%s", sentence)
        self._failed_at = min(self._failed_at, time.monotonic())
        self._result.failures.append(sentence)

    def _step(self, held: ShardLeases, relay: ShardRelay) -> bool:
        shard, before = relay.lease.shard, relay.sent
        try:
            with recording_errors(self._connection, relay.lease):
                worked = self._step_or_recover(relay)
        except OutboxFencedError as error:
            log.warning("%s", error)
            held.drop(relay)
            return False
        self._result.messages += relay.sent - before
        if relay.sent > before:
            self._producer_failures.pop(shard, None)
        return worked

    def _step_or_recover(self, relay: ShardRelay) -> bool:
        shard = relay.lease.shard
        try:
            return relay.step()
        except ProducerFencedOrLostError as error:
            # A rejected message may have cost the producer; several tries find that message.
            self._producer_failures[shard] = self._producer_failures.get(shard, 0) + (error.failures is None)
            if self._producer_failures[shard] >= _MAX_PRODUCER_FAILURES:
                raise
            log.warning("%s", error)
            # A newer relay's producer may have fenced ours. Its lease has a higher epoch then, and ours ends here.
            leases.renew(self._connection, relay.lease)
            relay.recover()
            return True

    def _prune_sent_log(self) -> None:
        if time.monotonic() < self._prune_at:
            return
        # The rest waits until shards are taken again, because sending comes first.
        retention = self._definition.retention
        if sent_log.prune_sent_log(self._connection, older_than=retention, max_seconds=_PRUNE_SECONDS):
            self._prune_at = time.monotonic() + _PRUNE_EVERY_SECONDS
