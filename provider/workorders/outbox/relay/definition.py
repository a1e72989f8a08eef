"""The relay's file: how messages are sent from the outbox to Kafka."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from workorders.core.definitions.fields import KIB, MIB, ConnectionId, Definition, Whole, byte_count, seconds
from workorders.core.definitions.loading import read_mapping
from workorders.core.definitions.validation import validate
from workorders.core.environment import DATABASE_CONNECTION
from workorders.kafka.definition.fields import IdPrefix, TopicName
from workorders.outbox.store.leases import BUCKETS

Bytes = Annotated[int, byte_count(KIB, 512 * MIB)]
Seconds = Annotated[float, seconds(0)]


class TopicDefinition(Definition):
    """Settings of one topic."""

    compact: bool = False
    """Whether only the last message per key of each batch is sent."""
    on_rejected: Literal["hold", "set_aside"] = "hold"
    """What happens to a message that Kafka rejects for good: its key is held, or only this message is held."""


class RelayDefinition(Definition):
    """How the outbox is relayed."""

    kafka_connection: ConnectionId = "kafka_default"
    """Airflow connection of the Kafka cluster."""
    database_connection: ConnectionId = DATABASE_CONNECTION
    """Airflow connection of the Postgres database that holds the outbox."""
    shards: Whole = Field(default=1, ge=1, le=BUCKETS)
    """Number of parts into which keys are divided, each with its own Dag."""
    transactional_id_prefix: IdPrefix = "workorders-outbox"
    """Prefix of the transactional ids; the outbox's id and the shard follow."""
    checkpoint_topic: TopicName = "workorders-outbox-checkpoints"
    """Compacted topic that records which batches are in Kafka; the relay creates it if it does not exist."""
    max_messages: Whole = Field(default=20_000, ge=1, le=100_000)
    """Maximum number of messages in a batch."""
    max_bytes: Bytes = 16 * MIB
    """Maximum bytes of a batch; a larger message is sent alone."""
    compression: Literal["none", "lz4", "zstd", "snappy", "gzip"] = "lz4"
    """Compression of batches."""
    max_message_bytes: Bytes = 1_000_000
    """Maximum size of a message with key and headers; the topics must accept it."""
    event_id_header: str | None = None
    """Name of a header with the event's id; by default there is none."""
    linger: Seconds = 30.0
    """How long the task waits for more messages before it ends and the sensor waits instead."""
    max_task_duration: Seconds = 3600.0
    """After this time the task ends even if more messages wait; the next Dag run continues."""
    topics: dict[TopicName, TopicDefinition] = Field(default_factory=dict)
    """Settings of single topics by name; other topics need none."""


def load_relay(path: Path) -> RelayDefinition:
    """Read the relay's file; without a file, everything has its default.

    Raises:
        ConfigurationError: the file is not a YAML mapping, or a field is wrong.
    """
    if not path.exists():
        return RelayDefinition()
    form = "the outbox's file is a mapping with fields such as shards and topics."
    content, lines = read_mapping(path, form=form, may_be_empty=True)
    return validate(content, RelayDefinition, where=path.name, lines=lines)
