"""Maps Kafka records to items.

Pure, except that a decoder fetches each schema once.

Keys and headers are bytes. They become a string if they are UTF-8 without NUL, which jsonb lacks, and
`{"base64": "..."}` otherwise. Headers stay a list of pairs, because their order matters and names may repeat. No record
raises an exception here, with any bytes, so no message can stop a partition.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal

import orjson

from workorders.core.creation.json_validation import LONG_RUN_OF_DIGITS, validate_body
from workorders.core.items import Item, Rejection
from workorders.core.json_bytes import text_or_base64
from workorders.core.secrets import is_secret_header
from workorders.kafka.formats.decoded import Decoded, Headers
from workorders.kafka.formats.payloads import Payloads
from workorders.kafka.partitions import DEFAULT_MAX_MESSAGE_BYTES, Record

if TYPE_CHECKING:
    from workorders.kafka.definition.filter import MessageFilter
    from workorders.kafka.definition.trigger import KafkaTriggerDefinition

RecordFields = tuple[int, bytes | None, bytes | None, int | None, int, Headers]
"""The fields of a `Record` after topic and partition; a plain tuple takes less time to make."""

_PORTION_RECORDS: Final = 500
_new_item = partial(tuple.__new__, Item)

NO_TIMESTAMP: Final = -1
_TIMESTAMP_TYPES: Final = {0: b"CreateTime", 1: b"LogAppendTime"}
_NO_TIMESTAMP_TYPE: Final = b"NoTimestampType"

FILTERED: Final = Rejection("filtered", "the trigger's filter leaves the message out")
"""Marks the item of a message that the filter leaves out: it is counted, and never becomes a work order."""

# Templates of bytes take a third of the time of dumped dicts. The keys are in jsonb's order, by length and then by
# bytes, so that Postgres need not sort them.
_REQUEST: Final = (
    b'{"key":%%b,"topic":%b,"offset":%%d,"headers":[%%b],"partition":%d,"timestamp":%%b,"timestamp_type":"%%b"}'
)
"""Completed for a partition first, and then for each of its records."""
_PLAIN: Final = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
"""What is the same in a JSON string as outside of it."""
_KEY_OF_REQUEST: Final = b'{"key":'
_CUT_REQUEST: Final = b'{"key":null,"topic":%b,"offset":%d,"headers":[],"partition":%d,"omitted_bytes":%d}'


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
    payloads: Payloads | None = None
    """What decodes keys and values; None for those that are taken as they are."""

    @classmethod
    def of(cls, definition: "KafkaTriggerDefinition", registry: Mapping[str, Any] | None = None) -> "RecordMapping":
        """Return the mapping of a trigger's definition.

        Raises:
            ConfigurationError: a format needs a registry, and there are no settings of one.
        """
        return cls(
            headers=definition.headers,
            accept_tombstones=definition.tombstones == "accept",
            max_message_bytes=definition.max_message_bytes,
            filter=definition.filter,
            payloads=Payloads.of(definition, registry),
        )

    def map_record(self, record: Record, stream: str | None) -> Item:
        """Return the item of one record; see `map_records`."""
        return next(self.map_records(record[:2], [record[2:]], [True], stream))

    def map_records(
        self, place: tuple[str, int], records: Iterable[RecordFields], odd: Iterable[bool | None], stream: str | None
    ) -> Iterator[Item]:
        """Yield the item of each record; its rejection is `FILTERED` if the filter leaves the record out.

        Args:
            place: topic and partition of all the records.
            records: of any number; their headers are kept in memory until the last one.
            odd: of each record, whether its value may match `SUSPICIOUS_PATTERN`; None for null.
            stream: the name of the topic and partition within the trigger.

        Raises:
            RegistryError: the registry did not answer, or refused the client.
        """
        topic, partition = place
        template = _REQUEST % (orjson.dumps(topic).replace(b"%", b"%%"), partition)
        header_json, records, odd = cache(self._header_json), iter(records), iter(odd)
        headers_json = cache(lambda headers: b",".join(filter(None, map(header_json, headers))))
        # In portions: what Python does for a list at once takes a third less time than one step per message.
        while portion := list(islice(records, _PORTION_RECORDS)):
            keys = _texts_json([key for _, key, _, _, _, _ in portion])
            requests = [
                template
                % (
                    key,
                    offset,
                    headers_json(tuple(headers)),
                    b"null" if timestamp_ms is None or timestamp_ms == NO_TIMESTAMP else b"%d" % timestamp_ms,
                    _TIMESTAMP_TYPES.get(timestamp_type, _NO_TIMESTAMP_TYPE),
                )
                for key, (offset, _, _, timestamp_ms, timestamp_type, headers) in zip(keys, portion, strict=True)
            ]
            items = self._items(place, portion, list(islice(odd, len(portion))), requests, stream)
            yield from items if self.filter is None else self._passing(self.filter, requests, items)

    def _items(
        self,
        place: tuple[str, int],
        records: list[RecordFields],
        odd: list[bool | None],
        requests: list[bytes],
        stream: str | None,
    ) -> Iterator[Item]:
        values = [value for _, _, value, _, _, _ in records]
        if self.payloads is None and True not in odd and self._are_inputs(requests, values):
            offsets = map(itemgetter(0), records)
            return map(_new_item, zip(repeat(stream), offsets, requests, values, repeat(None), repeat(None)))
        return (
            self._item(Record._make((*place, *record)), stream, request, odd=is_odd is True)
            for record, request, is_odd in zip(records, requests, odd, strict=True)
        )

    def _are_inputs(self, requests: list[bytes], values: list[bytes | None]) -> bool:
        """Return whether values that are not odd are stored as they are, without a check of each one."""
        try:
            longest = max(map(len, values))  # type: ignore[arg-type]
            return (
                longest <= min(self.max_message_bytes, LONG_RUN_OF_DIGITS)
                and max(map(len, requests)) <= self.max_message_bytes
                and set(map(type, map(orjson.loads, values))) == {dict}  # type: ignore[arg-type]
            )
        except (TypeError, orjson.JSONDecodeError):  # one is null, or not JSON
            return False

    def _item(self, record: Record, stream: str | None, request: bytes, *, odd: bool) -> Item:
        if len(request) > self.max_message_bytes:
            return _too_large(record, stream, len(request))
        if self.payloads is None:
            return self.validate_value(stream, record.offset, request, record.value, odd=odd)
        return self.map_decoded(self.payloads, record, stream, request)

    @staticmethod
    def _passing(filter_: "MessageFilter", requests: list[bytes], items: Iterable[Item]) -> Iterator[Item]:
        for request, item in zip(requests, items, strict=True):
            yield item if filter_.holds(request, item) else Item(item.stream, item.position, b"", None, FILTERED)

    def map_decoded(self, payloads: Payloads, record: Record, stream: str | None, request: bytes) -> Item:
        """Return the item of a record whose value, key, or both are decoded; its raw value is never the decoded one.

        The request has the key as it came; that of a rejected record keeps it so.

        Raises:
            RegistryError: the registry did not answer, or refused the client.
        """
        decoded = None
        if len(record.value or b"") <= self.max_message_bytes:
            decoded = payloads.decode_value(record.value, record.headers)
        if isinstance(decoded, Rejection):
            return Item(stream, record.offset, request, None, decoded, record.value)
        json, schema = (record.value, None) if decoded is None else decoded
        item = self.validate_value(stream, record.offset, request, json)
        if item.body is None:
            return item._replace(raw=record.value)
        written = item.request
        if schema is not None:
            written = b'%b,"value_schema":%b}' % (written[:-1], schema)
        if record.key is not None and payloads.key != "text":
            key = self._decoded_key(payloads, record.key)
            if isinstance(key, Rejection):
                return Item(stream, record.offset, request, None, key, record.value)
            after_key = written[len(_KEY_OF_REQUEST) + len(_text_json(record.key)) : -1]
            written = b'%b%b%b,"key_schema":%b}' % (_KEY_OF_REQUEST, key.json, after_key, key.schema or b"null")
        return item._replace(request=written)

    def _decoded_key(self, payloads: Payloads, key: bytes) -> Decoded | Rejection:
        found = payloads.decode_key(key)
        if isinstance(found, Rejection):
            return found
        # Postgres refuses some JSON, as it does in a body.
        whole = b'{"key":%b}' % found.json
        refused = validate_body(whole, self.max_message_bytes)
        return found if refused is None else refused._replace(detail=f"in the key, {refused.detail}")

    def validate_value(
        self, stream: str | None, offset: int | None, request: bytes, value: bytes | None, *, odd: bool = True
    ) -> Item:
        """Return the item of a value and its request; `odd` as in `validate_body`."""
        if value is None:
            if self.accept_tombstones:
                return Item(stream, offset, request[:-1] + b',"tombstone":true}', b"{}")
            return Item(stream, offset, request, None, Rejection("null-value", "the value is null (a tombstone)"))
        rejection = validate_body(value, self.max_message_bytes, odd=odd)
        if rejection is None:
            return Item(stream, offset, request, value)
        return Item(stream, offset, request, None, rejection, value)

    def _header_json(self, header: tuple[str | bytes, bytes | None]) -> bytes:
        """Return a header as a pair in JSON; nothing if a request has no headers of its name."""
        name, value = header
        if isinstance(name, str):  # maybe with half a surrogate pair, which plain UTF-8 would not encode
            name = name.encode(errors="surrogatepass")
        return b"[%b,%b]" % (_text_json(name), _text_json(value)) if self._wants(name) else b""

    def _wants(self, name: bytes) -> bool:
        text = name.decode(errors="replace")
        if self.headers == "all":
            return not is_secret_header(text)
        return self.headers != "none" and text in self.headers


def _too_large(record: Record, stream: str | None, size: int) -> Item:
    detail = f"key and headers make a request of {size} bytes, more than max_message_bytes"
    request = _CUT_REQUEST % (orjson.dumps(record.topic), record.offset, record.partition, size)
    return Item(stream, record.offset, request, None, Rejection("too-large", detail), record.value)


def _texts_json(values: list[bytes | None]) -> list[bytes]:
    """Return each value as JSON, as `_text_json` does."""
    known = [value for value in values if value is not None]
    if len(known) == len(values) and not b"".join(known).translate(None, _PLAIN):
        return [b'"%b"' % value for value in known]
    return list(map(_text_json, values))


def _text_json(value: bytes | None) -> bytes:
    """Return bytes as JSON: a string if they are UTF-8 without NUL, otherwise base64 in an object."""
    return b"null" if value is None else orjson.dumps(text_or_base64(value))
