"""From the bytes of one Protobuf message to JSON, and to the field by which that would lose or change something.

Google's decoder leaves out what it cannot place, cuts numbers to 32 bits, and does not require required fields. So what
it has read is written again: other bytes than those of the message are read once more, field by field.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import orjson
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor

from workorders.kafka.formats.decoded import BAD_BYTES, BAD_VALUE, Budget, RefusedPayloadError, require_short

ANY: Final = "google.protobuf.Any"
WELL_KNOWN: Final = "google/protobuf/"
_MORE: Final = 0x80
_MAX_VARINT_BYTES: Final = 10
_SAFE_BYTES: Final = 8 * 1024 * 1024
_REREAD: Final = 64
"""Counts for a byte of a group: groups in one another are read once for each level."""
_BYTES_OF_FIELD: Final = 16
"""Of memory, whether a message has it or not."""
_TEXTS_OF_BYTES: Final = (b"\"b'", b'"b\\"')
"""How JSON begins a text of proto2 that is not UTF-8."""

_VARINT, _FIXED64, _SIZED, _GROUP, _END, _FIXED32 = range(6)
_WIRE_TYPES: Final = {
    FieldDescriptor.TYPE_DOUBLE: _FIXED64,
    FieldDescriptor.TYPE_FIXED64: _FIXED64,
    FieldDescriptor.TYPE_SFIXED64: _FIXED64,
    FieldDescriptor.TYPE_FLOAT: _FIXED32,
    FieldDescriptor.TYPE_FIXED32: _FIXED32,
    FieldDescriptor.TYPE_SFIXED32: _FIXED32,
    FieldDescriptor.TYPE_STRING: _SIZED,
    FieldDescriptor.TYPE_BYTES: _SIZED,
    FieldDescriptor.TYPE_MESSAGE: _SIZED,
    FieldDescriptor.TYPE_GROUP: _GROUP,
}
"""All others are varints."""
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_OF_32_BITS: Final = frozenset(
    {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_ENUM}
)
_NEGATIVE_32_BITS: Final = 2**64 - 2**31


class Messages:
    """The message types of a schema, with what a message of each is at least as JSON."""

    def __init__(self, pool: Any, files: Sequence[Any]) -> None:
        """Walk the types of files.

        Raises:
            UnsafeSchemaError: a name is very long.
        """
        self.pool = pool
        self._costs: dict[str, int] = {}
        self._worst = 0
        types = [type_ for file in files for type_ in file.message_types_by_name.values()]
        enums = [enum for file in files for enum in file.enum_types_by_name.values()]
        for type_ in types:  # it grows meanwhile
            types += type_.nested_types
            enums += type_.enum_types
            require_short(field.name for field in type_.fields)
        for enum in enums:
            require_short(value.name for value in enum.values)
            self._worst = max(self._worst, *(2 * len(value.name) for value in enum.values))
        for type_ in types:
            self._worst = max(self._worst, _BYTES_OF_FIELD * len(type_.fields), self.cost_of(type_))

    def may_grow(self, payload: bytes) -> bool:
        """Return whether a message, of which the smallest part has two bytes, may be very long as JSON or in memory."""
        return self._worst * (1 + len(payload) // 2) > _SAFE_BYTES

    def cost_of(self, message_type: Any) -> int:
        """Return the bytes of JSON of a message without bytes; at least one for each field, because all take memory."""
        found = self._costs.get(message_type.full_name)
        if found is None:
            printed = [field for field in message_type.fields if not field.has_presence]
            size = 2 + sum(len(field.name) + 4 + len(_default_symbol(field)) for field in printed)
            if message_type.GetOptions().map_entry:
                size = 0
            found = self._costs[message_type.full_name] = max(size, len(message_type.fields))
        return found


def _default_symbol(field: Any) -> str:
    if field.enum_type is None or field.is_repeated:
        return ""
    return str(field.enum_type.values[0].name)


class Reading:
    """Reads one message, whose bytes as JSON are counted before they are made."""

    def __init__(self, messages: Messages, budget: Budget) -> None:
        """Read by the types of a schema."""
        self._messages = messages
        self._budget = budget

    def as_json(self, message_type: Any, payload: bytes) -> tuple[bytes, bool]:
        """Return a message as JSON, and whether that is all of its bytes, because the same are written again."""
        message = message_factory.GetMessageClass(message_type)()
        message.ParseFromString(payload)
        message.DiscardUnknownFields()
        is_whole = message.IsInitialized() and _has_same_bytes(message.SerializeToString(), payload)
        value = json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=self._messages.pool,
        )
        json = b"%b" % orjson.dumps(value)
        return json, is_whole and not any(text in json for text in _TEXTS_OF_BYTES)

    def require_whole(self, message_type: Any, payload: bytes, path: str) -> None:
        """Read a message field by field; what its type does not have is skipped.

        Raises:
            RefusedPayloadError: a field is malformed, would be left out or changed in JSON, or is required and missing.
        """
        self._budget.spend(self._messages.cost_of(message_type))
        place, seen = 0, Counter[int]()
        is_entry = message_type.GetOptions().map_entry
        while place < len(payload):
            try:
                number, wire, content, place = _field(payload, place)
            except (IndexError, ValueError):
                raise RefusedPayloadError.at(path, "is cut off, or is no message", BAD_BYTES) from None
            field = message_type.fields_by_number.get(number)
            if field is not None:
                if field.has_presence:
                    self._budget.spend(len(field.name) + 4)
                at = f"{path}/*" if is_entry else f"{path}/{field.name}"
                self._require_field(field, wire, content, at, seen[number])
                seen[number] += 1
        for field in message_type.fields:
            if field.is_required and field.number not in seen:
                at = f"{path}/{field.name}"
                raise RefusedPayloadError.at(at, "is required and missing", "the sender must set it", "schema-violated")

    def _require_field(self, field: Any, wire: int, content: int | bytes, path: str, index: int) -> None:
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        is_list = field.is_repeated and not is_map
        expected = _WIRE_TYPES.get(field.type, _VARINT)
        values: Sequence[int | bytes] = [content]
        if field.is_repeated and wire == _SIZED and expected in {_VARINT, *_FIXED_BYTES}:
            values, wire = (_unpacked(content, path) if expected == _VARINT else []), expected  # type: ignore[arg-type]
        if wire != expected:
            raise RefusedPayloadError.at(path, "is of another type than in the schema", BAD_BYTES)
        if wire == _GROUP:
            self._budget.spend(_REREAD * len(content))  # type: ignore[arg-type]
        for place, value in enumerate(values, index):
            at = f"{path}/{place}" if is_list else path
            if isinstance(value, int):
                self._require_number(field, value, at)
            elif field.type == FieldDescriptor.TYPE_STRING and not _is_utf8(value):
                raise RefusedPayloadError.at(at, "is a text that is not UTF-8", BAD_VALUE)
            elif field.message_type is not None:
                self._require_message(field.message_type, value, at)

    def _require_number(self, field: Any, value: int, path: str) -> None:
        if field.type in _OF_32_BITS and 2**32 <= value < _NEGATIVE_32_BITS:
            raise RefusedPayloadError.at(path, "is a number of more than 32 bits", BAD_BYTES)
        enum = field.enum_type
        if enum is not None:
            symbol = enum.values_by_number.get(_signed(value))
            if symbol is None and enum.is_closed:
                raise RefusedPayloadError.at(path, "is a number that its enum does not have", BAD_BYTES)
            self._budget.spend(2 if symbol is None else len(symbol.name) + 3)

    def _require_message(self, message_type: Any, payload: bytes, path: str) -> None:
        if message_type.full_name == ANY:
            self._require_any(message_type, payload, path)
        elif message_type.file.name.startswith(WELL_KNOWN):
            try:
                self.as_json(message_type, payload)
            except Exception:  # noqa: BLE001 - each type has its own
                clause = f"is a {message_type.name} beyond its limits, or malformed"
                raise RefusedPayloadError.at(path, clause, BAD_VALUE) from None
        else:
            self.require_whole(message_type, payload, path)

    def _require_any(self, message_type: Any, payload: bytes, path: str) -> None:
        wrapped = message_factory.GetMessageClass(message_type).FromString(payload)
        try:
            inner = self._messages.pool.FindMessageTypeByName(wrapped.TypeName())
        except KeyError:
            clause = "is an Any of a type that neither the schema nor its imports have"
            raise RefusedPayloadError.at(path, clause, "the sender must register a schema that imports it") from None
        self._require_message(inner, wrapped.value, path)


def _has_same_bytes(written: bytes, payload: bytes) -> bool:
    # The order of fields, and of the entries of a map, is up to the sender.
    return written == payload or (len(written) == len(payload) and sorted(written) == sorted(payload))


def _signed(value: int) -> int:
    return int.from_bytes((value % 2**32).to_bytes(4), signed=True)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _field(payload: bytes, place: int) -> tuple[int, int, int | bytes, int]:
    """Return the number, the wire type, and the content of the field at a place, and the place after it.

    Raises:
        IndexError: the bytes end too early.
        ValueError: there is no field.
    """
    tag, place = varint(payload, place)
    number, wire = tag >> 3, tag & 7
    if wire == _VARINT:
        return number, wire, *varint(payload, place)
    if wire == _GROUP:
        begin, inner = place, wire
        while inner != _END:
            end = place
            _, inner, _, place = _field(payload, place)
        return number, wire, payload[begin:end], place
    if wire == _END:
        return number, wire, b"", place
    size = _FIXED_BYTES.get(wire)
    if wire == _SIZED:
        size, place = varint(payload, place)
    if size is None or place + size > len(payload):
        raise IndexError
    return number, wire, payload[place : place + size], place + size


def _unpacked(payload: bytes, path: str) -> list[int]:
    values, place = [], 0
    try:
        while place < len(payload):
            value, place = varint(payload, place)
            values.append(value)
    except (IndexError, ValueError):
        raise RefusedPayloadError.at(path, "is cut off", BAD_BYTES) from None
    return values


def varint(payload: bytes, place: int, max_bytes: int = _MAX_VARINT_BYTES) -> tuple[int, int]:
    """Return a number without a sign, and the place after it.

    Raises:
        IndexError: the bytes end too early.
        ValueError: there is none.
    """
    number = 0
    for step in range(max_bytes):
        byte = payload[place + step]
        number |= (byte & ~_MORE) << (7 * step)
        if not byte & _MORE:
            return number, place + step + 1
    raise ValueError("a number that does not end")
