"""What the shards of a relay share."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from psycopg_pool import ConnectionPool

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.checkpoints import Markers
from workorders.kafka.outbox_relay.definition import RelayDefinition
from workorders.kafka.outbox_relay.producer import Sender
from workorders.kafka.outbox_relay.topic_metadata import KnownTopics
from workorders.outbox.store import identity
from workorders.outbox.store.identity import Identity


@dataclass(frozen=True, slots=True)
class Tools:
    """What the shards of a relay share."""

    definition: RelayDefinition
    markers: Markers
    #: Returns what all relays of this outbox have in common, once the topic of markers is there.
    identity: Callable[[], Identity]
    topics: KnownTopics
    #: Starts the producer of a shard.
    new_sender: Callable[[int], Sender]
    #: Other connections to the database, for reading.
    pool: ConnectionPool[Connection]
    #: Does one thing beside the thread that drains.
    side: Executor
    #: Is told each failure that was held, in one sentence.
    report: Callable[[str], None]
    compacted_topics: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Remember what is asked with every batch."""
        compacted = frozenset(name for name, topic in self.definition.topics.items() if topic.compact)
        object.__setattr__(self, "compacted_topics", compacted)


def new_tools(
    connection: Connection,
    kafka: Mapping[str, Any],
    definition: RelayDefinition,
    *,
    topics: KnownTopics,
    pool: ConnectionPool[Connection],
    side: Executor,
    report: Callable[[str], None],
) -> Tools:
    """Return the tools; the topic of markers is looked up, or made, beside what else there is to begin with."""
    outbox_id = identity.outbox_id(connection)
    markers = Markers(kafka, definition.markers_topic, outbox_id, identity.marker_key(connection))

    def found_identity() -> Identity:
        cluster_id, topic_id = markers.ready()
        return Identity(
            definition.shards, definition.transactional_id_prefix, cluster_id, definition.markers_topic, topic_id
        )

    return Tools(
        definition=definition,
        markers=markers,
        identity=side.submit(found_identity).result,
        topics=topics,
        new_sender=lambda shard: Sender(definition, kafka, f"{definition.transactional_id_prefix}-{outbox_id}-{shard}"),
        pool=pool,
        side=side,
        report=report,
    )
