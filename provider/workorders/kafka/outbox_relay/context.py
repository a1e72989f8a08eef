"""What the shards of a relay share."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.outbox_relay.checkpoints import Markers
from workorders.kafka.outbox_relay.connection_pool import SpareConnections
from workorders.kafka.outbox_relay.definition import RelayDefinition
from workorders.kafka.outbox_relay.producer import Sender
from workorders.kafka.outbox_relay.topic_metadata import KnownTopics
from workorders.outbox.store import settings
from workorders.outbox.store.settings import OutboxSettings
from workorders.outbox.store.transaction_identity import MarkersPlace

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")


@dataclass(frozen=True, slots=True)
class Tools:
    """What the shards of a relay share."""

    definition: RelayDefinition
    settings: OutboxSettings
    markers: Markers
    #: Returns where the markers lie, once their topic is there.
    markers_place: Callable[[], MarkersPlace]
    topics: KnownTopics
    compacted_topics: frozenset[str]
    set_aside_topics: frozenset[str]
    #: Starts a producer, with a transactional id or without.
    new_sender: Callable[[str | None], Sender]
    #: Other connections to the database, for reading.
    connections: SpareConnections
    #: Does one thing beside the thread that drains.
    side: Executor
    #: Is told each failure that was held, in one sentence.
    report: Callable[[str], None]


def new_tools(
    connection: Connection,
    kafka: Mapping[str, Any],
    definition: RelayDefinition,
    *,
    topics: KnownTopics,
    connections: SpareConnections,
    side: Executor,
    report: Callable[[str], None],
) -> Tools:
    """Return the tools for the settings that are in force now."""
    current = settings.current(connection)
    compacted = connection.execute(_QUERIES["compacted_topics"]).fetchall()
    set_aside = connection.execute(_QUERIES["set_aside_topics"]).fetchall()
    marker_key = settings.marker_key(connection)
    connection.commit()
    markers = Markers(kafka, definition.markers_topic, current.outbox_id, marker_key)
    return Tools(
        definition=definition,
        settings=current,
        markers=markers,
        # Beside what else there is to begin with; without transactions, only what is left of them may ask.
        markers_place=side.submit(markers.ready).result if definition.transactional else markers.ready,
        topics=topics,
        compacted_topics=frozenset(row[0] for row in compacted),
        set_aside_topics=frozenset(row[0] for row in set_aside),
        new_sender=lambda transactional_id: Sender(definition, kafka, transactional_id),
        connections=connections,
        side=side,
        report=report,
    )
