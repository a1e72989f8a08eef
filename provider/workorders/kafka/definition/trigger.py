"""The fields of a Kafka trigger's file; five lines are enough."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from workorders.core.definitions.fields import (
    KIB,
    MIB,
    ConnectionId,
    Definition,
    FieldError,
    ImportPath,
    Whole,
    byte_count,
    each_once,
    expecting,
    seconds,
)
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.items import MAX_BODY_BYTES
from workorders.core.secrets import assigns_secret, has_login, is_secret_header, is_secret_reference, is_secret_setting
from workorders.core.selectors import Selector
from workorders.kafka.definition.fields import (
    HeaderNames,
    Rate,
    Share,
    StartingOffsets,
    TopicName,
    TopicOrPattern,
    is_subscribed,
)
from workorders.kafka.definition.filter import FilterField
from workorders.kafka.definition.formats import FORMATS, REGISTRY_FORMATS
from workorders.kafka.definition.json_schema import JsonSchemaField
from workorders.kafka.partitions import DEFAULT_MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    ValueFormat: TypeAlias = str
    KeyFormat: TypeAlias = str
else:
    ValueFormat = Literal[tuple(FORMATS)]
    KeyFormat = Literal["text", *REGISTRY_FORMATS]

# A cold application's time is the JVM's start. Compiling with C1 alone and collecting with one thread took it from 13
# to 11 s on two cores; a batch is too short for the other compiler to pay.
DEFAULT_CONF: Final[Mapping[str, str]] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=WARN",
}
"""Spark settings of the application; a trigger's `conf` overrides them."""

_EXACTLY_ONCE: Final = re.compile(
    r"group\.?id|isolation\.?level|(?:starting|ending)\.?offsets|fail\.?on\.?data\.?loss|min\.?partitions"
    r"|auto\.?commit|auto\.?offset\.?reset",
    re.IGNORECASE,
)
_ELSEWHERE: Final[Mapping[str, str]] = {
    "spark.app.name": "it is derived from the trigger's name",
    "spark.master": "it belongs to the Spark connection",
    "spark.submit.deploymode": "it belongs to the Spark connection",
}


def _group(value: str, info: ValidationInfo) -> str:
    return value or f"workorders-{info.data.get('name', '')}"


def _conf(value: Any) -> dict[str, str | int | bool]:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected Spark settings such as {{spark.driver.memory: 2g}}, got {value!r}.")
    for key, setting in value.items():
        if not isinstance(key, str) or not key.startswith("spark."):
            raise ValueError(f"expected names of settings that begin with spark., got {key!r}.")
        # Secrets first, so that no other error repeats one.
        is_secret = is_secret_setting(key) or assigns_secret(str(setting))
        if (is_secret and not is_secret_reference(key)) or has_login(str(setting)):
            raise ValueError(
                f"{key} may carry a secret, but Spark's settings are stored and shown; use a connection, or name a "
                f"file."
            )
        if not isinstance(setting, str | int | bool):
            raise ValueError(f"expected a text, a whole number, true or false for {key}, got {setting!r}.")
        if key.lower() in _ELSEWHERE:
            raise ValueError(f"{key} cannot be set here; {_ELSEWHERE[key.lower()]}.")
        if _EXACTLY_ONCE.search(key):
            raise ValueError(f"{key} would break exactly-once or the order of messages; leave it out.")
    return dict(value)


class SparkSettings(Definition):
    """Settings of the Spark application; the master and the deploy mode are the Spark connection's."""

    conf: Annotated[dict[str, str | int | bool], BeforeValidator(_conf)] = Field(default_factory=dict)
    """Spark's settings by their full names, such as `spark.driver.memory: 2g`. Secrets, and what would break
    exactly-once, are refused. The cores of an executor are the partitions that it ingests at the same time."""
    max_writers: Whole | None = Field(default=None, ge=1, le=10_000)
    """Maximum number of ranges of a batch that are written at the same time, each through its own connection to
    Postgres. More ranges are written one group after the other. By default, as many as Spark has cores."""
    engine: Annotated[ImportPath | None, expecting("a class in a module such as shop.engines.Serverless")] = None
    """Import path of a class of yours that submits the batches elsewhere, instead of to the Spark connection."""


class KafkaTriggerDefinition(TriggerDefinition):
    """A source of work orders: every message of some topics, exactly once."""

    task_ids: ClassVar[tuple[str, ...]] = ("wait_for_messages", "plan_batch", "create_work_orders", "commit_offsets")

    request_fields = frozenset(
        {"key", "topic", "offset", "headers", "partition", "timestamp", "timestamp_type", "omitted_bytes", "tombstone"}
        | {"key_schema", "value_schema"}
    )

    type: Literal["kafka"] = "kafka"
    """Type of the trigger."""
    kafka_connection: ConnectionId = "kafka_default"
    """Airflow connection of the Kafka cluster; its extras are librdkafka settings."""
    spark_connection: ConnectionId = "spark_default"
    """Airflow connection of Spark, with the master and the deploy mode, or of a Spark Connect server."""

    topics: Annotated[
        tuple[TopicOrPattern, ...],
        Field(min_length=1),
        AfterValidator(each_once),
        expecting(r"a list of topics such as [orders] or ['^orders\.']"),
    ]
    """Topics to read: names, and regular expressions that begin with `^` (matched from the start of the name)."""
    consumer_group: Annotated[
        str, expecting("the id of a consumer group"), AfterValidator(_group), Field(validate_default=True)
    ] = ""
    """Consumer group whose offsets show the progress to other tools; `workorders-<name>` if not given."""
    starting_offsets: StartingOffsets = "earliest"
    """Where to begin in the topics that exist at the first poll: earliest, latest, committed (by the consumer
    group), or a time (ISO 8601 with its UTC offset, or 13 digits of Unix milliseconds). Topics and partitions that are
    created later are read from their first offset in any case."""

    max_messages: Whole = Field(default=100_000, ge=1, le=10_000_000)
    """Maximum number of messages per round of a batch."""
    max_bytes: Annotated[int, byte_count(KIB)] = 256 * MIB
    """Maximum number of bytes per round of a batch, estimated from previous sizes."""
    rate_limit_per_second: Rate | None = None
    """Maximum messages per second, averaged over the batches; no limit if not given."""
    virtual_partitions: Whole = Field(default=1, ge=1, le=32)  # each takes another relation in Spark's plan
    """Maximum number of virtual partitions that a range is cut into. They are read and written at the same
    time, in any order, each in its own transaction. Not together with `sequence`, nor with a workflow that has an
    `ordering_key` or `concurrency: 1`."""
    max_wait: Annotated[float, seconds(0)] = 0.0
    """Maximum time that messages wait for `min_messages`."""
    min_messages: Whole = Field(default=1, ge=1, le=10_000_000)
    """Messages to wait for before a batch is formed; needs `max_wait`."""
    poll_interval: Annotated[float, seconds(0.1)] = 1.0
    """Time between two polls of an idle topic."""

    linger: Annotated[float, seconds(0)] = 20.0
    """Time that an ingest task waits for further messages before it ends. While they arrive, its batch grows,
    for some minutes, so they need no other task. The task holds a worker slot as long; 0 takes only the
    messages that exist when the batch is planned."""

    format: ValueFormat = "json"
    """Format of values. `avro`, `protobuf`, and `json_schema` need a schema registry."""
    key_format: KeyFormat = "text"
    """Format of keys. A text that is not UTF-8 is kept as base64. Each other format needs a schema registry."""
    registry_connection: ConnectionId | None = None
    """Airflow connection of the schema registry, if a format needs one."""
    json_schema: JsonSchemaField | None = None
    """JSON Schema that every value must fulfill, with `format: json`: the path of a file, relative to that of the
    trigger, or the schema itself. Others are rejected."""
    max_message_bytes: Annotated[int, byte_count(KIB, MAX_BODY_BYTES)] = DEFAULT_MAX_MESSAGE_BYTES
    """Maximum size of a value that becomes an input; a larger one is rejected and stored."""
    headers: HeaderNames = "all"
    """Headers that the metadata contains: all (except those whose names indicate a secret, such as `authorization`),
    none, or a list of names, which are stored in any case."""
    tombstones: Literal["reject", "accept"] = "reject"
    """What becomes of a null value: a rejected work order, or an input `{}` with `tombstone: true` in its request."""
    filter: FilterField | None = None
    """Messages to take: selectors, each with a value, a list of values, `{not: ...}`, or `{exists: true or false}`, all
    of which must hold. Other messages are counted and create no work order; a batch keeps its filter. All if not
    given."""

    dead_letter_topic: TopicName | None = None
    """Topic to which a message that cannot be an input is published, exactly once, through the outbox. To none if not
    given. The trigger must not read it itself."""
    max_rejected_share: Share | None = None
    """Share of a range's messages (above 0, below 1): if more are rejected, and at least ten, the partition stalls and
    they are not recorded. Each virtual partition is counted alone. No limit if not given."""

    alert_after: Annotated[float, seconds(0)] = 3600.0  # a longer stall rarely ends by itself
    """Time after which a stall causes an alert."""

    max_active_batches: Whole = Field(default=4, ge=1, le=1000)
    """Maximum number of batches that are ingested at the same time, including replays."""
    spark: SparkSettings = Field(default_factory=SparkSettings)
    """Settings of the Spark application."""

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        for field, sentence in self._contradictions():
            raise FieldError((field,), sentence)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield the fields that others do not allow, each with what is expected instead."""
        minimum = self.min_messages
        if minimum > self.max_messages:
            yield "min_messages", f"expected at most max_messages ({self.max_messages}), got {minimum}."
        if minimum > 1 and self.max_wait == 0:
            yield "min_messages", f"expected max_wait, such as 30 s, with a minimum above 1, got {minimum} alone."
        if self.virtual_partitions > 1 and self.sequence is not None:
            because = "because virtual partitions are written in any order"
            yield "virtual_partitions", f"expected 1 with a sequence, {because}, got {self.virtual_partitions}."
        if self.idempotency is not None and self.idempotency.on_duplicate == "ignore":
            because = "a replay could not tell an ignored message from a lost one"
            yield "idempotency", f"expected on_duplicate: reject, because every message has a work order; {because}."
        if FORMATS[self.format].reads_headers and self.headers != "all":
            yield "headers", f"expected all with format: {self.format}, because it reads headers, got {self.headers!r}."
        if self.json_schema is not None and self.format != "json":
            yield "json_schema", f"expected no schema here, because it is for format: json, got {self.format}."
        yield from self._registry_contradictions()
        for read in self.topics:
            if self.dead_letter_topic is not None and is_subscribed(read, self.dead_letter_topic):
                because = f"{read} names; its dead letters would become dead letters again"
                expected = "expected a topic that the trigger does not read"
                yield "dead_letter_topic", f"{expected}, got {self.dead_letter_topic}, which {because}."

    def _registry_contradictions(self) -> Iterator[tuple[str, str]]:
        formats = set(REGISTRY_FORMATS) & {self.format, self.key_format}
        if formats and self.registry_connection is None:
            expected = f"expected the Airflow connection of a schema registry, which {min(formats)} needs."
            yield "registry_connection", expected
        if not formats and self.registry_connection is not None:
            yield "registry_connection", "expected a format or a key_format that needs a schema registry, got none."

    def instead_of_header(self, name: str, /) -> str | None:
        """Return what to write in place of a header that no request has, by its name in small letters; else None."""
        if self.headers == "all":
            is_kept = not is_secret_header(name)
        else:
            is_kept = self.headers != "none" and name in map(str.lower, self.headers)
        kept = self.headers if isinstance(self.headers, str) else ", ".join(self.headers)
        return None if is_kept else f"one of the headers that a work order contains ({kept}); add it to `headers`"

    def selectors(self) -> Iterator[tuple[tuple[str, ...], Selector]]:
        """Yield the selectors of the trigger, each with the path of its field."""
        yield from super().selectors()
        # A filter sees what a work order would have.
        for condition in self.filter.conditions if self.filter is not None else ():
            yield ("filter",), condition.selector
