"""What the parts of a relay share."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from psycopg_pool import ConnectionPool

from workorders.core.postgres.client_connection import ClientConnection
from workorders.outbox.relay.checkpoints import Checkpoints
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.producer import TransactionalProducer
from workorders.outbox.relay.topic_metadata import TopicMetadataCache
from workorders.outbox.store.settings import Identity


@dataclass(frozen=True, slots=True)
class RelayContext:
    """What the parts of a relay share."""

    definition: RelayDefinition
    checkpoints: Checkpoints
    #: Returns what all relays of this outbox have in common, once the checkpoint topic exists.
    identity: Callable[[], Identity]
    topics: TopicMetadataCache
    #: Starts the producer of the shard, which fences all older ones.
    new_producer: Callable[[], TransactionalProducer]
    #: Other connections to the database, to read from.
    pool: ConnectionPool[ClientConnection]
    #: Does one thing at a time next to the relay's thread.
    executor: Executor
    #: Gets a sentence for each message or topic that was held.
    failures: list[str]
