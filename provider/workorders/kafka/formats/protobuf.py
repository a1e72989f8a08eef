"""Protobuf to JSON, by the mapping of proto3, with the names of the schema's file.

Google's decoder leaves out what it cannot place, cuts numbers to 32 bits, and does not require required fields. So what
it has read is written again: other bytes than those of the message are read once more, field by field.
"""

import binascii
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, Final

import orjson
from confluent_kafka.schema_registry.serde import SchemaId
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor

from workorders.kafka.formats.decoded import (
    BAD_BYTES,
    BAD_VALUE,
    Budget,
    ReadPayload,
    RefusedPayloadError,
    UnsafeSchemaError,
    require_short,
)

_ID_BYTES: Final = 5
_MAX_INDEXES_BYTES: Final = 1024
_MAIN: Final = "schema.proto"
_COMPILE_SECONDS: Final = 60
_COMPILE_BYTES: Final = 512 * 1024 * 1024
"""Memory of the compiler."""
_COMPILER: Final = """
import contextlib, resource, runpy, sys
bytes = int(sys.argv.pop(1))
with contextlib.suppress(ValueError, OSError):  # macOS
    resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))
runpy.run_module("grpc_tools.protoc", run_name="__main__")
"""
_MAX_TYPES: Final = 20_000
"""With extensions; each takes a kilobyte of memory, and some the square of their number in time."""
_WELL_KNOWN: Final = "google/protobuf/"
_GOOGLES: Final = tuple(
    import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR
    for name in (
        *("any", "source_context", "type", "api", "descriptor", "duration", "empty", "field_mask", "struct"),
        *("timestamp", "wrappers"),
    )
)
"""Files that registries do not have, each after those that it imports. An Any may have a type of theirs that its schema
does not import."""
_WITH_ANY: Final = frozenset(f"{_WELL_KNOWN}{name}.proto" for name in ("any", "type", "api"))
_SINGLE_VALUES: Final = frozenset(
    f"{_WELL_KNOWN}{name}.proto" for name in ("duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
)
"""Files whose types are single values in JSON. Those of the others have fields, and can be far more JSON than their
bytes."""
_ANY: Final = "google.protobuf.Any"
_MORE: Final = 0x80
_MAX_VARINT_BYTES: Final = 10
_SAFE_BYTES: Final = 8 * 1024 * 1024
_MAX_LEVELS: Final = 100
"""Of nested messages, as in Google's decoder."""
_LEVELS_OF_ANY: Final = 10
"""Counted for an `Any`: Google's decoder has a copy of all bytes for each one in another."""
_REREAD: Final = 64
"""Counts for a byte of a group: nested groups are read once for each level."""
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


def parse(texts: dict[str, str]) -> ReadPayload:
    """Return what reads the payloads of a schema.

    Raises:
        UnsafeSchemaError: it has very many types, or a very long name.
        Exception: it is no Protobuf schema.
    """
    named = dict(texts)
    named[_MAIN] = named.pop("")
    pool = descriptor_pool.DescriptorPool()
    for google in _GOOGLES:
        pool.AddSerializedFile(google.serialized_pb)
    known = {google.name for google in _GOOGLES}
    files = [file for file in _described(named) or _compiled(named) if file.name not in known]
    if sum(map(_count_types, files)) > _MAX_TYPES:
        raise UnsafeSchemaError(f"it has more than {_MAX_TYPES} types")
    for file in files:
        pool.Add(file)
    used = {name for file in files for name in (file.name, *file.dependency)}
    messages = _Messages(pool, [pool.FindFileByName(name) for name in used])
    types = list(pool.FindFileByName(_MAIN).message_types_by_name.values())
    return partial(_read, messages, types, not used.isdisjoint(_WITH_ANY))


def _count_types(parent: Any) -> int:
    """Return the number of types in a file or a message."""
    is_file = isinstance(parent, descriptor_pb2.FileDescriptorProto)
    inner = parent.message_type if is_file else parent.nested_type
    return len(parent.enum_type) + len(parent.extension) + sum(1 + _count_types(one) for one in inner)


def _described(texts: dict[str, str]) -> list[descriptor_pb2.FileDescriptorProto] | None:
    """Return the files if the registry gave descriptors of them; None if it gave their sources."""
    try:
        data = {name: b64decode(text, validate=True) for name, text in texts.items()}
    except binascii.Error:
        return None
    files = [descriptor_pb2.FileDescriptorProto.FromString(one) for one in data.values()]
    for file, name in zip(files, data, strict=True):
        file.name = name
    return files


def _compiled(texts: dict[str, str]) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    """Yield the files of sources, by Google's compiler in a separate process."""
    with tempfile.TemporaryDirectory(prefix="workorders-protobuf-") as folder:
        for name, text in texts.items():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise UnsafeSchemaError("the name of an import leads out of its folder")
            file = Path(folder, "sources", name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        compiled = Path(folder, "compiled")
        subprocess.run(  # noqa: S603 - our own interpreter, and files that we named
            [
                *(sys.executable, "-c", _COMPILER, str(_COMPILE_BYTES)),
                *(f"-I{folder}/sources", "--include_imports", f"--descriptor_set_out={compiled}", _MAIN),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_COMPILE_SECONDS,
        )
        yield from descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file


class _Messages:
    """The message types of a schema, with what a message of each is at least as JSON."""

    def __init__(self, pool: Any, files: Sequence[Any]) -> None:
        """Walk the types of files; raise as `parse`."""
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
            enums = [field.enum_type for field in printed if field.enum_type is not None and not field.is_repeated]
            size = 2 + sum(len(field.name) + 4 for field in printed) + sum(len(enum.values[0].name) for enum in enums)
            if message_type.GetOptions().map_entry:
                size = 0
            found = self._costs[message_type.full_name] = max(size, len(message_type.fields))
        return found


@dataclass(slots=True)
class _Reading:
    """Reads one message, whose bytes as JSON are counted before they are made."""

    messages: _Messages
    budget: Budget
    levels: int = 0
    """Of nested messages, around the one that is read field by field."""

    def as_json(self, message_type: Any, payload: bytes | memoryview) -> tuple[bytes, bool]:
        """Return a message as JSON, and whether that is all of its bytes, because the same are written again."""
        message = message_factory.GetMessageClass(message_type)()
        message.ParseFromString(bytes(payload))
        message.DiscardUnknownFields()
        is_whole = message.IsInitialized() and _has_same_bytes(message.SerializeToString(), payload)
        value = json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=self.messages.pool,
        )
        json = b"%b" % orjson.dumps(value)
        return json, is_whole and not any(text in json for text in _TEXTS_OF_BYTES)

    def require_whole(self, message_type: Any, payload: bytes | memoryview) -> None:
        """Read a message field by field; what its type does not have is skipped.

        Raises:
            RefusedPayloadError: a field would be left out or changed in JSON, or is required and missing.
            Exception: the bytes are no message.
        """
        self.budget.spend(self.messages.cost_of(message_type))
        self.levels += 1
        if self.levels > _MAX_LEVELS:
            raise RefusedPayloadError(f"a message is in more than {_MAX_LEVELS} messages; {BAD_BYTES}")
        payload = memoryview(payload)  # each level would have a copy of all that is in it
        place, seen = 0, set[int]()
        while place < len(payload):
            number, wire, content, place = _field(payload, place)
            field = message_type.fields_by_number.get(number)
            if field is not None:
                if field.has_presence:
                    self.budget.spend(len(field.name) + 4)
                self._require_field(field, wire, content)
                seen.add(number)
        for field in message_type.fields:
            if field.is_required and field.number not in seen:
                clause = f"the field {field.name} is required and missing; the sender must set it"
                raise RefusedPayloadError(clause, "schema-violated")
        self.levels -= 1

    def _require_field(self, field: Any, wire: int, content: int | memoryview) -> None:
        expected = _WIRE_TYPES.get(field.type, _VARINT)
        values: Sequence[int | memoryview] = [content]
        if field.is_repeated and wire == _SIZED and expected in {_VARINT, *_FIXED_BYTES}:
            values, wire = (_unpacked(content) if expected == _VARINT else []), expected  # type: ignore[arg-type]
        if wire != expected:
            raise RefusedPayloadError(f"the field {field.name} is of another type than in the schema; {BAD_BYTES}")
        if wire == _GROUP:
            self.budget.spend(_REREAD * len(content))  # type: ignore[arg-type]
        for value in values:
            if isinstance(value, int):
                self._require_number(field, value)
            elif field.type == FieldDescriptor.TYPE_STRING:
                try:
                    str(value, "utf-8")
                except UnicodeDecodeError:
                    clause = f"the field {field.name} is a text that is not UTF-8; {BAD_VALUE}"
                    raise RefusedPayloadError(clause) from None
            elif field.message_type is not None:
                self._require_message(field.message_type, value)

    def _require_number(self, field: Any, value: int) -> None:
        if field.type in _OF_32_BITS and 2**32 <= value < _NEGATIVE_32_BITS:
            raise RefusedPayloadError(f"the field {field.name} is a number of more than 32 bits; {BAD_BYTES}")
        enum = field.enum_type
        if enum is not None:
            symbol = enum.values_by_number.get(int.from_bytes((value % 2**32).to_bytes(4), signed=True))
            if symbol is None and enum.is_closed:
                clause = f"the field {field.name} is a number that its enum does not have; {BAD_BYTES}"
                raise RefusedPayloadError(clause)
            self.budget.spend(2 if symbol is None else len(symbol.name) + 3)

    def _require_message(self, message_type: Any, payload: bytes | memoryview) -> None:
        if message_type.full_name == _ANY:
            self._require_any(message_type, payload)
        elif message_type.file.name in _SINGLE_VALUES:
            try:
                self.as_json(message_type, payload)
            except Exception:  # noqa: BLE001 - each type has its own
                clause = f"a {message_type.name} is beyond its limits, or malformed; {BAD_VALUE}"
                raise RefusedPayloadError(clause) from None
        else:
            self.require_whole(message_type, payload)

    def _require_any(self, message_type: Any, payload: bytes | memoryview) -> None:
        wrapped = message_factory.GetMessageClass(message_type).FromString(bytes(payload))
        try:
            inner = self.messages.pool.FindMessageTypeByName(wrapped.TypeName())
        except KeyError:
            clause = "an Any is of a type that neither the schema nor its imports have"
            raise RefusedPayloadError(f"{clause}; the sender must register a schema that imports it") from None
        self.levels += _LEVELS_OF_ANY
        self._require_message(inner, wrapped.value)
        self.levels -= _LEVELS_OF_ANY


def _read(messages: _Messages, types: Sequence[Any], has_any: bool, payload: bytes, budget: Budget) -> bytes:
    indexes, rest = _message_indexes(payload)
    for index in indexes:
        if not 0 <= index < len(types):
            raise RefusedPayloadError(f"it is of a message type that the schema does not have; {BAD_BYTES}")
        message_type = types[index]
        types = message_type.nested_types
    reading = _Reading(messages, budget)
    is_proved = has_any or messages.may_grow(rest)
    if is_proved:
        reading.require_whole(message_type, rest)
    try:
        json, is_whole = reading.as_json(message_type, rest)
    except Exception:
        if not is_proved:
            reading.require_whole(message_type, rest)
        raise
    if not (is_proved or is_whole):
        reading.require_whole(message_type, rest)
    return json


def _message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Return the path to the message type, and what follows it."""
    if payload.startswith(b"\0"):  # the first type, as almost always: the library takes 7 us
        return [0], payload[1:]
    # It reads them together with the id, which is read already.
    beginning, found = BytesIO(bytes(_ID_BYTES) + payload[:_MAX_INDEXES_BYTES]), SchemaId("PROTOBUF")
    found.from_bytes(beginning)
    return found.message_indexes or [], payload[beginning.tell() - _ID_BYTES :]


def _has_same_bytes(written: bytes, payload: bytes | memoryview) -> bool:
    # The order of fields, and of the entries of a map, is up to the sender.
    return written == payload or (len(written) == len(payload) and Counter(written) == Counter(payload))


def _field(payload: memoryview, place: int) -> tuple[int, int, int | memoryview, int]:
    """Return the number, the wire type, and the content of the field at a place, and the place after it.

    Raises an IndexError or a ValueError if there is no field.
    """
    tag, place = _varint(payload, place)
    number, wire = tag >> 3, tag & 7
    if wire == _VARINT:
        return number, wire, *_varint(payload, place)
    if wire == _GROUP:
        begin, inner = place, wire
        while inner != _END:
            end = place
            _, inner, _, place = _field(payload, place)
        return number, wire, payload[begin:end], place
    if wire == _END:
        return number, wire, payload[:0], place
    size = _FIXED_BYTES.get(wire)
    if wire == _SIZED:
        size, place = _varint(payload, place)
    if size is None or place + size > len(payload):
        raise IndexError
    return number, wire, payload[place : place + size], place + size


def _unpacked(payload: memoryview) -> list[int]:
    values, place = [], 0
    while place < len(payload):
        value, place = _varint(payload, place)
        values.append(value)
    return values


def _varint(payload: memoryview, place: int) -> tuple[int, int]:
    """Return a number without a sign, and the place after it; raises an IndexError or a ValueError without one."""
    number = 0
    for step in range(_MAX_VARINT_BYTES):
        byte = payload[place + step]
        number |= (byte & ~_MORE) << (7 * step)
        if not byte & _MORE:
            return number, place + step + 1
    raise ValueError("a number that does not end")
