"""Maps Kafka records to items; `record_columns` does the same by column, and asks this module about odd values.

Pure, except that a decoder fetches each schema once.

Keys and headers are bytes. They become a string if they are UTF-8 without NUL, which jsonb lacks, and
`{"base64": "..."}` otherwise. Headers stay a list of pairs, because their order matters and names may repeat. No record
raises an exception here, with any bytes, so no message can stop a partition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import orjson

from workorders.core.creation.json_validation import needs_slow_check, validate_body
from workorders.core.items import Item, Rejection
from workorders.core.json_bytes import text_or_base64
from workorders.core.secrets import is_secret_header
from workorders.kafka.formats.decoded import Decoded, Headers
from workorders.kafka.formats.payloads import Payloads
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
_KEY_OF_REQUEST: Final = b'{"key":'
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
    payloads: Payloads | None = None
    """What decodes keys and values; None for those that are taken as they are."""

    @classmethod
    def of(cls, definition: "KafkaTriggerDefinition", registry: Mapping[str, Any] | None = None) -> "RecordMapping":
        """Return the mapping of a trigger's definition.

        Args:
            definition: of the trigger.
            registry: settings of the schema registry's client, if a format needs it.

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
        if self.payloads is None:
            odd = record.value is not None and needs_slow_check(record.value)
            item = self.item(stream, source, record.offset, request, record.value, odd)
        else:
            item = self.map_decoded(self.payloads, record, stream, request)
        if self.filter is not None and not self.filter.holds(self.filter.conditions, request, item):
            return Item(stream, record.offset, b"", None, FILTERED)
        return item

    def item(  # noqa: PLR0917 - positional, because it is called for each message
        self, stream: str | None, source: "Source", offset: int | None, request: bytes, value: bytes | None, odd: bool
    ) -> Item:
        """Return the item of a record whose request is written, but not yet checked; see `validate_value`."""
        if len(request) > self.max_message_bytes:
            omitted = len(request)
            detail = f"key and headers make a request of {omitted} bytes, more than max_message_bytes"
            request = _CUT_REQUEST % (source.topic, offset, source.partition, omitted)
            return Item(stream, offset, request, None, Rejection("too-large", detail), value)
        return self.validate_value(stream, offset, request, value, odd)

    def map_decoded(self, payloads: Payloads, record: Record, stream: str | None, request: bytes) -> Item:
        """Return the item of a record whose request is written, with its key as it came.

        Raises:
            RegistryUnavailableError: the registry did not answer.
            RegistryRefusedError: the registry refused the client.
        """
        place = Place(stream, Source.of(record.topic, record.partition), record.topic, record.offset)
        decoded = self.decode(payloads, record.topic, record.value, record.headers)
        json = decoded.json if isinstance(decoded, Decoded) else record.value
        odd = json is not None and needs_slow_check(json)
        return self.decoded_item(payloads, place, request, record.key, record.value, decoded, odd)

    def decode(
        self, payloads: Payloads, topic: str, value: bytes | None, headers: Headers
    ) -> Decoded | Rejection | None:
        """Return a value as JSON, or why that cannot be; None for one that is stored or rejected as it is.

        Raises:
            RegistryUnavailableError: the registry did not answer.
            RegistryRefusedError: the registry refused the client.
        """
        if not payloads.decodes_values or len(value or b"") > self.max_message_bytes:
            return None
        return payloads.decode_value(topic, value, headers)

    def decoded_item(  # noqa: PLR0917 - positional, because it is called for each message
        self,
        payloads: Payloads,
        place: "Place",
        request: bytes,
        key: bytes | None,
        value: bytes | None,
        decoded: Decoded | Rejection | None,
        odd: bool,
    ) -> Item:
        """Return the item of a record whose value was decoded; its raw value is never the decoded one.

        Args:
            payloads: the formats.
            place: where the record is.
            request: of the record, with the key as it came. That of a rejected record keeps it so.
            key: of the record.
            value: of the record.
            decoded: what `decode` returned for the value.
            odd: the result of `needs_slow_check` for the decoded value, or else for the value.

        Raises:
            RegistryUnavailableError: the registry did not answer.
            RegistryRefusedError: the registry refused the client.
        """
        if isinstance(decoded, Rejection):
            return Item(place.stream, place.offset, request, None, decoded, value)
        json, registration = (value, None) if decoded is None else decoded
        item = self.item(place.stream, place.source, place.offset, request, json, odd)
        if item.body is None:
            return item._replace(raw=value)
        written = item.request
        if registration is not None:
            written = b'%b,"value_schema":%b}' % (written[:-1], registration)
        if key is not None and payloads.decodes_keys:
            decoded_key = self._decoded_key(payloads, place.topic, key)
            if isinstance(decoded_key, Rejection):
                return Item(place.stream, place.offset, request, None, decoded_key, value)
            after_key = written[len(_KEY_OF_REQUEST) + len(text_json(key)) : -1]
            schema = decoded_key.schema or b"null"
            written = b'%b%b%b,"key_schema":%b}' % (_KEY_OF_REQUEST, decoded_key.json, after_key, schema)
        return Item(place.stream, place.offset, written, item.body)

    def _decoded_key(self, payloads: Payloads, topic: str, key: bytes) -> Decoded | Rejection:
        found = payloads.decode_key(topic, key)
        if isinstance(found, Rejection):
            return found
        # Postgres refuses some JSON, as it does in a body.
        whole = b'{"key":%b}' % found.json
        refused = validate_body(whole, self.max_message_bytes, odd=needs_slow_check(whole))
        return found if refused is None else refused._replace(detail=f"in the key, {refused.detail}")

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


class Place(NamedTuple):
    """Where a record is."""

    stream: str | None
    source: "Source"
    topic: str
    offset: int | None


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
