"""Maps Kafka records to items. Pure; `record_columns` does the same by column, and asks this module about odd values.

Keys and headers are bytes. They become a string if they are UTF-8 without NUL, which jsonb lacks, and
`{"base64": "..."}` otherwise. Headers stay a list of pairs, because their order matters and names may repeat. No record
raises an exception here, with any bytes, so no message can stop a partition.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import orjson

from workorders.core.creation.json_validation import needs_slow_check, validate_body
from workorders.core.items import Item, Rejection
from workorders.core.json_bytes import text_or_base64
from workorders.core.secrets import is_secret_header
from workorders.kafka.partitions import DEFAULT_MAX_MESSAGE_BYTES, Record

if TYPE_CHECKING:
    from workorders.kafka.definition.filter import MessageFilter
    from workorders.kafka.definition.trigger import KafkaTriggerDefinition

NO_TIMESTAMP: Final = -1
TIMESTAMP_TYPES: Final = {-1: b"NoTimestampType", 0: b"CreateTime", 1: b"LogAppendTime"}

FILTERED: Final = Rejection("filtered", "the trigger's filter leaves the message out")
"""Marks the item of a message that the filter leaves out: it is counted, and never becomes a work order."""

# Templates of bytes take a third of the time of dumped dicts. The keys are in jsonb's order, by length and then by
# bytes, so that Postgres need not sort them.
REQUEST: Final = b'{"key":%b,"topic":%b,"offset":%d,"headers":[%b],"partition":%b,"timestamp":%b,"timestamp_type":"%b"}'
_CUT_REQUEST: Final = b'{"key":null,"topic":%b,"offset":%d,"headers":[],"partition":%b,"omitted_bytes":%d}'


@dataclass(frozen=True, slots=True)
class RecordMapping:
    """Maps the records of one trigger to items."""

    headers: Literal["all", "none"] | tuple[str, ...] = "all"
    """Headers of the request: all without a secret, none, or those with one of these names."""
    accept_tombstones: bool = False
    """Whether a null value becomes an empty object; otherwise it is rejected."""
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    """Maximum size of the value, and of the request with key and headers."""
    filter: "MessageFilter | None" = None
    """The messages to take; None for all."""

    @classmethod
    def of(cls, definition: "KafkaTriggerDefinition") -> "RecordMapping":
        """Return the mapping of a trigger's definition."""
        return cls(
            headers=definition.headers,
            accept_tombstones=definition.tombstones == "accept",
            max_message_bytes=definition.max_message_bytes,
            filter=definition.filter,
        )

    def map_record(self, record: Record, stream: str) -> Item:
        """Return the item of one record; `stream` names the topic and partition within the trigger.

        Its rejection is `FILTERED` if the filter leaves the record out.
        """
        source = Source.of(record.topic, record.partition)
        headers = ((_as_bytes(name), value) for name, value in record.headers)
        request = REQUEST % (
            text_json(record.key),
            source.topic,
            record.offset,
            b",".join(b"[%b,%b]" % (text_json(name), text_json(value)) for name, value in headers if self.wants(name)),
            source.partition,
            b"null" if record.timestamp_ms in {None, NO_TIMESTAMP} else b"%d" % record.timestamp_ms,
            TIMESTAMP_TYPES.get(record.timestamp_type, TIMESTAMP_TYPES[-1]),
        )
        odd = record.value is not None and needs_slow_check(record.value)
        item = self.item(stream, source, record.offset, request, record.value, odd)
        if self.filter is not None and not self.filter.holds(self.filter.conditions, request, item):
            return Item(stream, record.offset, b"", None, FILTERED)
        return item

    def item(  # noqa: PLR0917 - positional, because it is called for each message
        self, stream: str, source: "Source", offset: int, request: bytes, value: bytes | None, odd: bool
    ) -> Item:
        """Return the item of a record whose request is written, but not yet checked; see `validate_value`."""
        if len(request) > self.max_message_bytes:
            omitted = len(request)
            detail = f"key and headers make a request of {omitted} bytes, more than max_message_bytes"
            request = _CUT_REQUEST % (source.topic, offset, source.partition, omitted)
            return Item(stream, offset, request, None, Rejection("too-large", detail), value)
        return self.validate_value(stream, offset, request, value, odd)

    def validate_value(
        self, stream: str | None, offset: int | None, request: bytes, value: bytes | None, odd: bool
    ) -> Item:
        """Return the item of a value and its request; `odd` is the result of `needs_slow_check`."""
        if value is None:
            if self.accept_tombstones:
                return Item(stream, offset, request[:-1] + b',"tombstone":true}', b"{}")
            return Item(stream, offset, request, None, Rejection("null-value", "the value is null (a tombstone)"))
        rejection = validate_body(value, self.max_message_bytes, odd=odd)
        if rejection is None:
            return Item(stream, offset, request, value)
        return Item(stream, offset, request, None, rejection, value)

    def wants(self, name: bytes) -> bool:
        """Return whether a request has the headers of this name."""
        text = name.decode(errors="replace")
        if self.headers == "all":
            return not is_secret_header(text)
        return self.headers != "none" and text in self.headers


class Source(NamedTuple):
    """A Kafka partition, as JSON."""

    topic: bytes
    partition: bytes

    @classmethod
    def of(cls, topic: str, partition: int) -> "Source":
        """Return a partition by its topic's name and its number."""
        return cls(orjson.dumps(topic), b"%d" % partition)


def text_json(value: bytes | None) -> bytes:
    """Return bytes as JSON: a string if they are UTF-8 without NUL, otherwise base64 in an object."""
    return b"null" if value is None else orjson.dumps(text_or_base64(value))


def _as_bytes(name: str | bytes) -> bytes:
    # A client that decodes header names may pass on half a surrogate pair, which plain UTF-8 would not encode.
    return name.encode(errors="surrogatepass") if isinstance(name, str) else name
