"""How the outbox is relayed, as a file says it."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from workorders.core.definitions.fields import KIB, MIB, ConnectionId, Definition, Whole, byte_count, seconds
from workorders.core.definitions.loading import read_mapping
from workorders.core.definitions.validation import validate
from workorders.kafka.definition.fields import IdPrefix, TopicName
from workorders.outbox.store.settings import BUCKETS

Bytes = Annotated[int, byte_count(KIB, 512 * MIB)]
Seconds = Annotated[float, seconds(0)]


class TopicDefinition(Definition):
    """What is said of one topic."""

    compact: bool = False
    """Send only the last message a key of those that are sent together."""
    on_refused: Literal["hold", "set-aside"] = "hold"
    """What a message does that Kafka refuses for good: it holds its key, or it is set aside alone."""
    max_message_bytes: Bytes | None = None
    """Largest message, key and headers included; the outbox's own limit unless given."""


class RelayDefinition(Definition):
    """How the outbox is relayed."""

    kafka_connection: ConnectionId = "kafka_default"
    """Airflow connection of the Kafka cluster."""
    database_connection: ConnectionId = "workorders_db"
    """Airflow connection of the Postgres database that holds the outbox."""
    shards: Whole = Field(default=1, ge=1, le=BUCKETS)
    """Into how many parts the keys are divided; so many tasks can send at once."""
    transactional_id_prefix: IdPrefix = "workorders-outbox"
    """Beginning of the transactional ids; the outbox's own id and the shard follow."""
    markers_topic: TopicName = "workorders-outbox-markers"
    """Compacted topic that says which batches are in Kafka; made at the first start if it may be."""
    batch_messages: Whole = Field(default=20_000, ge=1, le=100_000)
    """Most messages of a batch."""
    batch_bytes: Bytes = 16 * MIB
    """Most bytes of a batch, but for a single message that is larger."""
    compression: Literal["none", "lz4", "zstd", "snappy", "gzip"] = "lz4"
    """How batches are compressed."""
    max_message_bytes: Bytes = 1_000_000
    """Largest message, key and headers included; the topics must take it."""
    event_id_header: str | None = None
    """Name of a header that carries the event's id; none is added unless given."""
    warm_for: Seconds = 30.0
    """How long a relay that finds nothing keeps looking before its task ends and the sensor waits instead."""
    longest_task: Seconds = 3600.0
    """After so long a relay ends even if there is more; the next run goes on."""
    retention: Seconds = 0.0
    """How long sent messages are kept in the table outbox_sent; 0 keeps none."""
    topics: dict[TopicName, TopicDefinition] = Field(default_factory=dict)
    """What is said of single topics; the others need not be named."""
    only_listed_topics: bool = False
    """Whether the topics under `topics` are the only ones that messages may be sent to."""

    @property
    def keeps_sent(self) -> bool:
        """Whether sent messages are kept for a time."""
        return self.retention > 0


def load_relay(path: Path) -> RelayDefinition:
    """Read the relay's file; without one, everything has its default.

    Raises:
        ConfigurationError: the file is no YAML mapping, or a field is wrong.
    """
    if not path.exists():
        return RelayDefinition()
    form = "the outbox's file is a mapping with fields such as shards and topics."
    return validate(read_mapping(path, form=form, may_be_empty=True), RelayDefinition, where=path.name)
