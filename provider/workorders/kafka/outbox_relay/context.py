"""What the shards of a relay share."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from psycopg_pool import ConnectionPool

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.checkpoints import Checkpoints
from workorders.kafka.outbox_relay.definition import RelayDefinition
from workorders.kafka.outbox_relay.producer import TransactionalProducer
from workorders.kafka.outbox_relay.topic_metadata import TopicMetadataCache
from workorders.outbox.store import identity
from workorders.outbox.store.identity import Identity


@dataclass(frozen=True, slots=True)
class RelayContext:
    """What the shards of a relay share."""

    definition: RelayDefinition
    checkpoints: Checkpoints
    #: Returns what all relays of this outbox have in common, once the checkpoint topic exists.
    identity: Callable[[], Identity]
    topics: TopicMetadataCache
    #: Starts the producer of a shard, which fences all older ones.
    new_producer: Callable[[int], TransactionalProducer]
    #: Other connections to the database, to read from.
    pool: ConnectionPool[Connection]
    #: Does one thing at a time next to the relay's thread.
    executor: Executor
    #: Receives each failure that was held, in one sentence.
    report_failure: Callable[[str], None]


def new_context(
    connection: Connection,
    kafka: Mapping[str, Any],
    definition: RelayDefinition,
    *,
    topics: TopicMetadataCache,
    pool: ConnectionPool[Connection],
    executor: Executor,
    report_failure: Callable[[str], None],
) -> RelayContext:
    """Return the context; the checkpoint topic is described, or created, in the executor meanwhile."""
    outbox_id = identity.outbox_id(connection)
    prefix, topic = definition.transactional_id_prefix, definition.checkpoint_topic
    checkpoints = Checkpoints(kafka, topic, outbox_id, identity.checkpoint_key(connection))

    def this_identity() -> Identity:
        cluster_id, topic_id = checkpoints.ensure_topic()
        return Identity(definition.shards, prefix, cluster_id, topic, topic_id)

    return RelayContext(
        definition=definition,
        checkpoints=checkpoints,
        identity=executor.submit(this_identity).result,
        topics=topics,
        new_producer=lambda shard: TransactionalProducer(definition, kafka, f"{prefix}-{outbox_id}-{shard}"),
        pool=pool,
        executor=executor,
        report_failure=report_failure,
    )
