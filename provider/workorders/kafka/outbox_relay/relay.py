"""Drains the outbox: takes the shards that are free, and sends until nothing waits or the time is over."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from psycopg_pool import ConnectionPool

from workorders.core.postgres.connection import PREPARE_NOTHING, Connection, connect, connection_string
from workorders.kafka.client.admin import Cluster
from workorders.kafka.client.secrets import Connections
from workorders.kafka.client.settings import client_settings
from workorders.kafka.outbox_relay.context import new_tools
from workorders.kafka.outbox_relay.definition import RelayDefinition
from workorders.kafka.outbox_relay.lease_heartbeat import Heartbeat
from workorders.kafka.outbox_relay.producer import SenderLostError
from workorders.kafka.outbox_relay.shard import ShardRelay
from workorders.kafka.outbox_relay.shard_leases import HeldShards, held_shards, noting
from workorders.kafka.outbox_relay.topic_metadata import KnownTopics, RefusedTopics
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store import leases, sent_log, settings

log: Final = logging.getLogger(__name__)

_APPLICATION: Final = "workorders outbox relay"
SHORTEST_WAIT: Final = 0.02
LONGEST_WAIT: Final = 0.25
_TAKE_EVERY_SECONDS: Final = 5.0
_FORGET_EVERY_SECONDS: Final = 60.0
_FORGET_SECONDS: Final = 0.25
_LOSSES_BEFORE_GIVING_UP: Final = 3
_SHOWN_AFTER_SECONDS: Final = 300.0
"""A drain that had to hold something ends so soon, however much there is to send: its end is what people see in
Airflow. To end with the first refusal, when there are always some, would cost all others a start each time."""


@dataclass(slots=True)
class Drained:
    """What a drain did."""

    messages: int = 0
    #: One sentence for each message or topic that was held.
    failures: list[str] = field(default_factory=list)


def prepare(connection: Connection, definition: RelayDefinition) -> None:
    """Write down what the definition says for whoever enqueues."""
    with connection.transaction():
        settings.save(
            connection,
            max_message_bytes=definition.max_message_bytes,
            topics={name: topic.max_message_bytes for name, topic in definition.topics.items()},
            only_listed_topics=definition.only_listed_topics,
        )


def drain(
    connections: Connections,
    definition: RelayDefinition,
    *,
    shards: Sequence[int] | None = None,
    warm_for: float = 0.0,
    longest: float = 3600.0,
    stopped: Callable[[], bool] = lambda: False,
) -> Drained:
    """Send what waits.

    Args:
        connections: where Postgres and Kafka are.
        definition: how to send.
        shards: take no others; every one that is free unless given.
        warm_for: seconds to go on looking after the last message.
        longest: seconds after which it ends even if there is more.
        stopped: asked between two batches; it ends when that is true.

    Raises:
        KafkaUnavailableError: the cluster does not answer, again and again.
        OutboxContradictionError: marker and database do not fit together.
        OutboxIdentityError: this relay differs from what is recorded of the outbox.
        psycopg.Error: the database failed.
    """
    with (
        connect(connections.database_url, application_name=_APPLICATION, session=leases.SESSION) as connection,
        Heartbeat(connections.database_url) as heartbeat,
    ):
        prepare(connection, definition)
        drained = Drained()
        side = ThreadPoolExecutor(1, "outbox relay")
        pool = _pool(connections.database_url, definition)
        relay = _Relay(connection, drained)
        settings_of_clients = client_settings(connections.kafka)
        listed = definition.topics.keys() if definition.only_listed_topics else None
        tools = new_tools(
            connection,
            settings_of_clients,
            definition,
            topics=KnownTopics(Cluster(settings_of_clients), RefusedTopics(definition.markers_topic, listed)),
            pool=pool,
            side=side,
            report=relay.report,
        )
        # What is done at the side ends before the leases are given back, however this ends.
        with held_shards(connection, heartbeat, tools, shards) as held, pool, side:
            relay.run(held, warm_for, time.monotonic() + longest, stopped)
        return drained


def _pool(database_url: str, definition: RelayDefinition) -> ConnectionPool[Connection]:
    return ConnectionPool(
        connection_string(database_url, _APPLICATION, leases.SESSION),
        kwargs={"prepare_threshold": PREPARE_NOTHING},
        min_size=0,
        # One that was told to stop reading ahead may still have its own when the next one begins.
        max_size=2 * definition.shards,
        check=ConnectionPool.check_connection,
        open=False,
    )


class _Relay:
    """One drain: the shards that it holds, by turns."""

    def __init__(self, connection: Connection, drained: Drained) -> None:
        self._connection = connection
        self._drained = drained
        self._losses: dict[int, int] = {}
        self._forget_at = 0.0
        self._failed_at = math.inf

    def run(self, held: HeldShards, warm_for: float, deadline: float, stopped: Callable[[], bool]) -> None:
        """Send by turns until nothing has come for a while."""
        wait, take_at, quiet_since = SHORTEST_WAIT, 0.0, time.monotonic()
        while not stopped() and time.monotonic() < min(deadline, self._failed_at + _SHOWN_AFTER_SECONDS):
            if time.monotonic() >= take_at:
                held.take()
                self._forget_sent(held.tools.definition.retention)
                take_at = time.monotonic() + _TAKE_EVERY_SECONDS
            # A sum, and not any(): every shard has its turn.
            if sum(self._step(held, relay) for relay in held.all()):
                wait, quiet_since = SHORTEST_WAIT, time.monotonic()
                continue
            if time.monotonic() - quiet_since >= warm_for:
                break
            time.sleep(wait)
            wait = min(wait * 1.5, LONGEST_WAIT)
        for relay in held.all():
            with noting(self._connection, relay.lease):
                relay.finish()
                leases.clear_error(self._connection, relay.lease)

    def report(self, sentence: str) -> None:
        """Note a failure that was held."""
        log.error("%s", sentence)
        self._failed_at = min(self._failed_at, time.monotonic())
        self._drained.failures.append(sentence)

    def _step(self, held: HeldShards, relay: ShardRelay) -> bool:
        shard, before = relay.lease.shard, relay.sent
        try:
            with noting(self._connection, relay.lease):
                worked = self._step_or_recover(relay)
        except OutboxFencedError as error:
            log.warning("%s", error)
            held.lost(relay)
            return False
        self._drained.messages += relay.sent - before
        if relay.sent > before:
            self._losses.pop(shard, None)
        return worked

    def _step_or_recover(self, relay: ShardRelay) -> bool:
        shard = relay.lease.shard
        try:
            return relay.step()
        except SenderLostError as error:
            # A refused message may be what the producer stumbled over, and several tries close in on it.
            self._losses[shard] = self._losses.get(shard, 0) + (error.suspicion is None)
            if self._losses[shard] >= _LOSSES_BEFORE_GIVING_UP:
                raise
            log.warning("%s", error)
            # A newer relay's producer may be what ended ours; then its lease is higher, and ours ends here.
            leases.renew(self._connection, relay.lease)
            relay.recover()
            return True

    def _forget_sent(self, seconds: float) -> None:
        if time.monotonic() < self._forget_at:
            return
        # What is left waits until the next look at the shards, for sending goes first.
        if sent_log.forget(self._connection, older_than=seconds, within=_FORGET_SECONDS):
            self._forget_at = time.monotonic() + _FORGET_EVERY_SECONDS
