"""The definition of a Kafka trigger: what its file may say, and the defaults that make five lines enough."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from workorders.core.definitions.fields import (
    BYTES_SCHEMA,
    KIB,
    MIB,
    SECONDS_SCHEMA,
    byte_count,
    one_of,
    seconds,
    text,
    whole_number,
)
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.kafka.definition.fields import REGEX_MARK, header_names, rate, share, topics
from workorders.kafka.definition.spark import SparkSettings
from workorders.kafka.definition.starting_offsets import StartingOffsets, StartingOffsetsField
from workorders.kafka.partitions import DEFAULT_MAX_MESSAGE_BYTES

LARGEST_MESSAGE_LIMIT: Final = 32 * MIB
"""Up to here Postgres holds every value as jsonb: an array of 32 MiB has 16.7 million elements, its very limit."""
DEFAULT_ALERT_AFTER_SECONDS: Final = 3600.0
"""What lasts longer than an hour does not heal by itself as a rule; what is shorter needs nobody's night."""

_ConnectionId = Annotated[str, text("the id of an Airflow connection")]


def _group(value: Any, info: ValidationInfo) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected the id of a consumer group, got {value!r}.")
    return value or f"workorders-{info.data.get('name', '')}"


class KafkaTriggerDefinition(TriggerDefinition):
    """A source of work orders: every message of some topics, exactly once."""

    type: Annotated[Literal["kafka"], one_of("kafka")] = "kafka"
    """Type of the trigger."""
    kafka_connection: _ConnectionId = "kafka_default"
    """Airflow connection of the Kafka cluster; its extras are librdkafka settings."""
    database_connection: _ConnectionId = "workorders_db"
    """Airflow connection of the Postgres database that holds the work orders."""
    spark_connection: _ConnectionId = "spark_default"
    """Airflow connection of Spark; it says the master and the deploy mode."""

    topics: Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(topics)]
    """Topics to read: names, and regular expressions that begin with `^` (matched from the start of the name)."""
    group: Annotated[str, BeforeValidator(_group), Field(validate_default=True)] = ""
    """Consumer group that the offsets are committed to, for others to see; `workorders-<name>` if not given."""
    starting_offsets: StartingOffsetsField = Field(
        default=StartingOffsets("earliest"), json_schema_extra={"default": "earliest"}
    )
    """Where to begin in a topic never read before: earliest, latest, group (what the group has committed), or a time
    (ISO 8601 with its offset, or 13 digits of Unix milliseconds). Partitions that are added to a topic later are read
    from their first offset, whatever stands here."""

    max_messages: Annotated[int, whole_number(1, 10_000_000), Field(json_schema_extra={"minimum": 1})] = 100_000
    """Most messages of one batch."""
    max_bytes: Annotated[int, byte_count(KIB), BYTES_SCHEMA] = 256 * MIB
    """Most bytes of one batch, judged by the sizes seen before."""
    rate_limit_per_second: Annotated[float | None, BeforeValidator(rate)] = None
    """Most messages a second, averaged over the batches; no limit if not given."""
    max_wait: Annotated[float, seconds(0), SECONDS_SCHEMA] = 0.0
    """Longest time (seconds) that waiting messages are held back for `min_messages`."""
    min_messages: Annotated[int, whole_number(1, 10_000_000), Field(json_schema_extra={"minimum": 1})] = 1
    """Messages to wait for before a batch is formed; needs `max_wait`."""
    poll_interval: Annotated[float, seconds(0.1), SECONDS_SCHEMA] = 1.0
    """Time (seconds) between two looks at an idle topic."""

    max_message_bytes: Annotated[int, byte_count(KIB, LARGEST_MESSAGE_LIMIT), BYTES_SCHEMA] = DEFAULT_MAX_MESSAGE_BYTES
    """Largest value that becomes an input; larger ones are rejected, and kept."""
    headers: Annotated[Literal["all", "none"] | tuple[str, ...], BeforeValidator(header_names)] = "all"
    """Which headers go into the request: all (except those whose names say that they carry a secret, such as
    `authorization`), none, or a list of names, which are stored whatever they carry."""
    tombstones: Annotated[Literal["reject", "accept"], one_of("reject", "accept")] = "reject"
    """What becomes of a null value: a rejected work order, or an input `{}` with `tombstone: true` in its request."""

    max_rejected_share: Annotated[
        float | None, BeforeValidator(share), Field(json_schema_extra={"exclusiveMinimum": 0, "exclusiveMaximum": 1})
    ] = None
    """Share of a range's messages (above 0, below 1) of which more rejected ones stall the partition in place of being
    recorded, from ten rejected messages on; no limit if not given."""

    alert_after: Annotated[float, seconds(0), SECONDS_SCHEMA] = DEFAULT_ALERT_AFTER_SECONDS
    """Time (seconds) after which a stall is worth an alert."""

    active_batches: Annotated[int, whole_number(1, 1000), Field(json_schema_extra={"minimum": 1})] = 4
    """How many batches may be ingested at once, replays included."""
    pool: Annotated[str, text("the name of an Airflow pool")] | None = None
    """Airflow pool of `create_work_orders`, the task that runs Spark; the default pool if not given."""
    spark: SparkSettings = Field(default_factory=SparkSettings)
    """Settings of the Spark application."""

    @field_validator("min_messages", mode="after")
    @classmethod
    def _can_be_reached(cls, minimum: int, info: ValidationInfo) -> int:
        if minimum > info.data.get("max_messages", minimum):
            raise ValueError(f"expected at most max_messages ({info.data['max_messages']}), got {minimum}.")
        if minimum > 1 and info.data.get("max_wait") == 0:
            raise ValueError(f"expected max_wait, such as 30 s, beside a minimum above 1, got {minimum} alone.")
        return minimum

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Topics that are named in full."""
        return tuple(topic for topic in self.topics if not topic.startswith(REGEX_MARK))

    @property
    def topic_patterns(self) -> tuple[re.Pattern[str], ...]:
        """Regular expressions among the topics; `match` them against a name."""
        return tuple(re.compile(topic) for topic in self.topics if topic.startswith(REGEX_MARK))
