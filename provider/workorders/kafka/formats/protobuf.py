"""Protobuf to JSON, by the mapping of proto3, with the names of the schema's file."""

import binascii
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool

from workorders.kafka.formats.decoded import BAD_BYTES, Budget, ReadPayload, RefusedPayloadError, UnsafeSchemaError
from workorders.kafka.formats.protobuf_messages import ANY, WELL_KNOWN, Messages, Reading, varint
from workorders.kafka.formats.registry import SchemaRegistry

_MAX_INDEX_BYTES: Final = 5
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
_INSIDE_ANY: Final = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
"""Files of types that an Any may have, although its schema does not import them."""


def parse(registry: SchemaRegistry, schema_id: int) -> ReadPayload:
    """Return what reads the payloads of a schema.

    Raises:
        UnknownSchemaError: the registry does not have it, or one that it refers to.
        Exception: it is no Protobuf schema.
    """
    texts = registry.texts(schema_id, _MAIN, serialized=True)
    pool = descriptor_pool.DescriptorPool()
    files = list(_described(texts) or _compiled(texts))
    if sum(map(_count_types, files)) > _MAX_TYPES:
        raise UnsafeSchemaError(f"it has more than {_MAX_TYPES} types")
    for file in files:
        _add(file, pool)
    has_any = _add_inside_any(pool)
    messages = Messages(pool, [pool.FindFileByName(file.name) for file in files])
    return partial(_read, messages, list(pool.FindFileByName(_MAIN).message_types_by_name.values()), has_any)


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


def _add(file: descriptor_pb2.FileDescriptorProto, pool: descriptor_pool.DescriptorPool) -> None:
    for imported in file.dependency:
        if imported.startswith(WELL_KNOWN):
            _add_well_known(imported, pool)
    pool.Add(file)


def _add_well_known(name: str, pool: descriptor_pool.DescriptorPool) -> None:
    # Importing the module adds the file to the default pool.
    __import__(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    known = descriptor_pb2.FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(known)
    for imported in known.dependency:
        _add_well_known(imported, pool)
    pool.Add(known)


def _add_inside_any(pool: Any) -> bool:
    """Return whether messages may have values of the type Any, and add the types of Google that these may have."""
    try:
        pool.FindMessageTypeByName(ANY)
    except KeyError:
        return False
    for name in _INSIDE_ANY:
        _add_well_known(f"{WELL_KNOWN}{name}.proto", pool)
    return True


def _read(messages: Messages, types: Sequence[Any], has_any: bool, payload: bytes, budget: Budget) -> bytes:
    indexes, rest = _message_indexes(payload)
    for index in indexes:
        if index >= len(types):
            raise RefusedPayloadError(f"it is of a message type that the schema does not have; {BAD_BYTES}")
        message_type = types[index]
        types = message_type.nested_types
    reading = Reading(messages, budget)
    is_proved = has_any or messages.may_grow(rest)
    if is_proved:
        reading.require_whole(message_type, rest, "")
    try:
        json, is_whole = reading.as_json(message_type, rest)
    except Exception:
        if not is_proved:
            reading.require_whole(message_type, rest, "")
        raise
    if not (is_proved or is_whole):
        reading.require_whole(message_type, rest, "")
    return json


def _message_indexes(payload: bytes) -> tuple[list[int], bytes]:
    """Return the path to the message type, and what follows it; a single zero is the first type."""
    count, place = _index(payload, 0)
    if count == 0:
        return [0], payload[place:]
    indexes = []
    for _ in range(min(count, len(payload))):
        index, place = _index(payload, place)
        indexes.append(index)
    return indexes, payload[place:]


def _index(payload: bytes, place: int) -> tuple[int, int]:
    """Return a zigzag number that is not negative, and the place after it; raises as `_varint` does."""
    number, place = varint(payload, place, _MAX_INDEX_BYTES)
    if number & 1:
        raise ValueError("a negative number")
    return number >> 1, place
