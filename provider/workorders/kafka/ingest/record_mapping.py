"""Maps Kafka records to items: pure, and optimized, because every message of every topic passes here.

Keys and headers are bytes. They become a string if they are UTF-8 without NUL, which jsonb lacks, and
`{"base64": "..."}` otherwise. Headers stay a list of pairs, because their order matters and names may repeat. No record
raises an exception here, with any bytes, so no message can stop a partition.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import orjson

from workorders.core.creation.json_validation import SUSPICIOUS_PATTERN, needs_slow_check, validate_body
from workorders.core.items import Item, Rejection
from workorders.core.json_bytes import text_or_base64
from workorders.core.secrets import is_secret_header
from workorders.kafka.partitions import DEFAULT_MAX_MESSAGE_BYTES, Record

if TYPE_CHECKING:
    import pyarrow

    from workorders.kafka.definition.trigger import KafkaTriggerDefinition

NO_TIMESTAMP: Final = -1
TIMESTAMP_TYPES: Final = {-1: b"NoTimestampType", 0: b"CreateTime", 1: b"LogAppendTime"}

# Templates of bytes take a third of the time of dumped dicts. The keys are in jsonb's order, by length and then by
# bytes, so that Postgres need not sort them.
_REQUEST: Final = (
    b'{"key":%b,"topic":%b,"offset":%d,"headers":[%b],"partition":%b,"timestamp":%b,"timestamp_type":"%b"}'
)
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

    @classmethod
    def of(cls, definition: "KafkaTriggerDefinition") -> "RecordMapping":
        """Return the mapping of a trigger's definition."""
        return cls(
            headers=definition.headers,
            accept_tombstones=definition.tombstones == "accept",
            max_message_bytes=definition.max_message_bytes,
        )

    def map_record(self, record: Record, stream: str) -> Item:
        """Return the item of one record; `stream` names the topic and partition within the trigger."""
        headers = [(_as_bytes(name), value) for name, value in record.headers]
        return self._item(
            stream,
            _Source.of(record.topic, record.partition),
            record.offset,
            record.key,
            record.value,
            record.value is not None and needs_slow_check(record.value),
            record.timestamp_ms,
            record.timestamp_type,
            next(self._header_json(headers, [len(headers)])),
        )

    def items(self, batch: "pyarrow.RecordBatch", stream: str) -> Iterator[Item]:
        """Yield the items of a record batch from one Kafka partition, in its order.

        Columns, by name: `key`, `value` (binary), `topic` (string), `partition` (int32), `offset` (int64),
        `timestamp_ms` (int64: milliseconds, since a Spark timestamp spoils -1 and the year 300000), `timestampType`
        (int32), `headers` (list of struct of key and value; null when a record has none).

        Raises:
            ValueError: The batch holds records of several partitions; `stream` can name only one.
        """
        if batch.num_rows == 0:
            return
        sources = set(zip(_values(batch, "topic"), _values(batch, "partition"), strict=True))
        if len(sources) > 1:
            raise ValueError(f"A record batch of {stream} holds {len(sources)} partitions, but must hold one.")
        source = _Source.of(*sources.pop())
        columns = zip(
            _values(batch, "offset"),
            _values(batch, "key"),
            _values(batch, "value"),
            _odd_values(batch),
            _values(batch, "timestamp_ms"),
            _values(batch, "timestampType"),
            self._header_column(batch),
            strict=True,
        )
        item = self._item
        for offset, key, value, odd, timestamp_ms, timestamp_type, headers in columns:
            yield item(stream, source, offset, key, value, odd, timestamp_ms, timestamp_type, headers)

    def _item(  # noqa: PLR0917 - positional, because it is called for each message
        self,
        stream: str,
        source: "_Source",
        offset: int,
        key: bytes | None,
        value: bytes | None,
        odd: bool,
        timestamp_ms: int | None,
        timestamp_type: int,
        headers: bytes,
    ) -> Item:
        request = _REQUEST % (
            _text_json(key),
            source.topic,
            offset,
            headers,
            source.partition,
            b"null" if timestamp_ms is None or timestamp_ms == NO_TIMESTAMP else b"%d" % timestamp_ms,
            TIMESTAMP_TYPES.get(timestamp_type, b"NoTimestampType"),
        )
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

    def _header_column(self, batch: "pyarrow.RecordBatch") -> Iterator[bytes]:
        if self.headers == "none":
            return repeat(b"", batch.num_rows)
        column = cast("pyarrow.ListArray", batch.column("headers"))
        structs = column.flatten()
        # Names arrive as text, but are read as bytes: the mapper decodes them, where bad UTF-8 is data and no error.
        names = structs.field(0).cast("binary").to_pylist()
        pairs = list(zip(names, structs.field(1).to_pylist(), strict=True))
        return self._header_json(pairs, column.value_lengths().to_pylist())

    def _header_json(
        self, pairs: Sequence[tuple[bytes, bytes | None]], lengths: Sequence[int | None]
    ) -> Iterator[bytes]:
        """Yield the wanted headers of each record as JSON pairs with commas between.

        Args:
            pairs: Name and value of all headers of all records.
            lengths: How many of them belong to each record; None for a record without headers.
        """
        # The same pairs repeat (a content type, a version), so each is written once per batch.
        wanted_names = {name for name in {name for name, _ in pairs} if self._wants(name)}
        written = {pair: _pair_json(*pair) if pair[0] in wanted_names else b"" for pair in set(pairs)}
        position = 0
        for length in lengths:
            if length == 1:
                yield written[pairs[position]]
            else:
                wanted = [written[pair] for pair in pairs[position : position + (length or 0)]]
                yield b",".join(filter(None, wanted))
            position += length or 0

    def _wants(self, name: bytes) -> bool:
        text = name.decode(errors="replace")
        if self.headers == "all":
            return not is_secret_header(text)
        return self.headers != "none" and text in self.headers


def _pair_json(name: bytes, value: bytes | None) -> bytes:
    return b"[%b,%b]" % (_text_json(name), _text_json(value))


class _Source(NamedTuple):
    """A Kafka partition, as JSON."""

    topic: bytes
    partition: bytes

    @classmethod
    def of(cls, topic: str, partition: int) -> "_Source":
        return cls(orjson.dumps(topic), b"%d" % partition)


def _text_json(value: bytes | None) -> bytes:
    """Return bytes as JSON: a string if they are UTF-8 without NUL, otherwise base64 in an object."""
    return b"null" if value is None else orjson.dumps(text_or_base64(value))


def _as_bytes(name: str | bytes) -> bytes:
    # A client that decodes header names may pass on half a surrogate pair, which plain UTF-8 would not encode.
    return name.encode(errors="surrogatepass") if isinstance(name, str) else name


def _values(batch: "pyarrow.RecordBatch", column: str) -> list[Any]:
    return cast("list[Any]", batch.column(column).to_pylist())


def _odd_values(batch: "pyarrow.RecordBatch") -> list[bool | None]:
    """Return for each value whether it needs the slow check; by column this takes a quarter of the time."""
    from pyarrow import compute  # noqa: PLC0415 - the module imports without pyarrow; only batches need it

    matches = compute.match_substring_regex(batch.column("value"), pattern=SUSPICIOUS_PATTERN)
    return cast("list[bool | None]", matches.to_pylist())
