"""Records as no client library writes them, sent over a bare socket: header names that are no UTF-8, any timestamp.

Formats: https://kafka.apache.org/documentation/#recordbatch and Produce, version 3, of Kafka's protocol guide.
"""

import socket
from collections.abc import Iterator, Sequence
from struct import Struct, pack

_MAGIC = 2
_PRODUCE, _VERSION = 0, 3
_ALL_REPLICAS = -1
_TIMEOUT_MS = 30_000
_ANSWER_HEAD = Struct(">i")
_ERROR_AFTER_NAME = Struct(">iih")

Headers = Sequence[tuple[bytes, bytes | None]]


def produce_raw(
    bootstrap_servers: str, topic: str, partition: int, headers: Headers, *, value: bytes = b"{}", timestamp_ms: int = 1
) -> None:
    """Write one record.

    Raises:
        AssertionError: the broker refused it.
    """
    batch = _batch(_record(value, headers), timestamp_ms)
    # The first number is the length of the transaction's id: there is none.
    body = pack(">hhi", -1, _ALL_REPLICAS, _TIMEOUT_MS)
    body += pack(">i", 1) + _string(topic) + pack(">iii", 1, partition, len(batch)) + batch
    request = pack(">hhi", _PRODUCE, _VERSION, 1) + _string("test") + body
    host, port = bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(pack(">i", len(request)) + request)
        (length,) = _ANSWER_HEAD.unpack(_read(connection, _ANSWER_HEAD.size))
        answer = _read(connection, length)
    # Correlation id, number of topics, the topic's name; then number of partitions, partition, error.
    place = 4 + 4 + len(_string(topic))
    _, _, error = _ERROR_AFTER_NAME.unpack_from(answer, place)
    assert error == 0, f"the broker answered with error {error}"


def _read(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        part = connection.recv(length - len(found))
        assert part, "the broker closed the connection"
        found += part
    return found


def _batch(record: bytes, timestamp_ms: int) -> bytes:
    records = _varint(len(record)) + record
    checked = pack(">hiqqqhii", 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + records
    rest = pack(">ibI", -1, _MAGIC, _crc32c(checked)) + checked
    return pack(">qi", 0, len(rest)) + rest


def _record(value: bytes, headers: Headers) -> bytes:
    head = b"\0" + _varint(0) + _varint(0) + _varint(-1) + _bytes(value)
    return head + _varint(len(headers)) + b"".join(_bytes(name) + _bytes(content) for name, content in headers)


def _string(text: str) -> bytes:
    return pack(">h", len(text.encode())) + text.encode()


def _bytes(content: bytes | None) -> bytes:
    return _varint(-1) if content is None else _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes(_groups((number << 1) ^ (number >> 63)))


def _groups(zigzag: int) -> Iterator[int]:
    while zigzag > 0x7F:
        yield zigzag & 0x7F | 0x80
        zigzag >>= 7
    yield zigzag


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
