"""Rows in Postgres's binary COPY format, and COPY of rows that are encoded while Postgres stores the ones before.

Written out here because it is the hot path: two packed structs a message cost a third of what a general row writer
does. The format: https://www.postgresql.org/docs/18/sql-copy.html, "Binary Format"; jsonb travels as its version
byte 1 and the text, an enum as its label.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from struct import Struct
from typing import Final, LiteralString

from psycopg import sql

from workorders.core.postgres.connection import SCHEMA, Connection

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

_BLOCK_ROWS: Final = 500
_LENGTH = Struct(">i")
_NULL = _LENGTH.pack(-1)
_JSONB_VERSION = b"\x01"
_INTEGER_BYTES = 4
_BIGINT_BYTES = 8
_UUID_BYTES = 16
_ID_AND_POSITION = Struct(">hi16siq").pack
_ID_AND_LENGTH = Struct(">hi16sic").pack
_JSONB_LENGTH = Struct(">ic").pack
_COUNT_AND_ID = Struct(">hi16s").pack
_BIGINT = Struct(">iq").pack
_KEYED = Struct(">hi16si16siqii")

WORK_ORDER_COLUMNS = ("id", "position", "trigger_id", "workflow_id", "stream_id", "state", "ordering_key")
DATACLIP_COLUMNS = ("id", "body", "request")
REJECTION_COLUMNS = ("work_order_id", "code", "detail", "request", "raw")
KEYED_COLUMNS = ("key", "work_order_id", "position", "stream_id", "trigger_id", "expires_at")
KEY_OF = slice(6, 22)
"""The key within the result of `keyed`."""
ID_OF = slice(26, 42)
"""The work order's id within the result of `keyed`."""
SOURCE_OF = slice(42, None)
"""Position and stream within the result of `keyed`."""


def field(value: bytes | None) -> bytes:
    """Return one field: its length in bytes and its value; None is SQL's NULL."""
    return _NULL if value is None else _LENGTH.pack(len(value)) + value


def integer(value: int | None) -> bytes:
    """Return a field of type integer."""
    return field(None if value is None else value.to_bytes(_INTEGER_BYTES, "big", signed=True))


def jsonb(text: bytes | None) -> bytes:
    """Return a field of type jsonb from JSON text."""
    return field(None if text is None else _JSONB_VERSION + text)


def work_order_suffix(trigger_id: int, workflow_id: int, stream_id: int | None, state: str) -> bytes:
    """Return the fields that all work orders of one stream and state share."""
    return integer(trigger_id) + integer(workflow_id) + integer(stream_id) + field(state.encode())


def work_order(id_: bytes, position: int | None, tail: bytes) -> bytes:
    """Return a row of `work_orders` without its ordering key, which follows as a `bigint`."""
    if position is None:
        return _COUNT_AND_ID(len(WORK_ORDER_COLUMNS), _UUID_BYTES, id_) + _NULL + tail
    return _ID_AND_POSITION(7, _UUID_BYTES, id_, _BIGINT_BYTES, position) + tail


def bigint(value: int | None) -> bytes:
    """Return a field of type bigint."""
    return _NULL if value is None else _BIGINT(_BIGINT_BYTES, value)


def dataclip(id_: bytes, body: bytes, request: bytes) -> bytes:
    """Return a row of `dataclips`."""
    return b"".join(
        (
            _ID_AND_LENGTH(3, _UUID_BYTES, id_, len(body) + 1, _JSONB_VERSION),
            body,
            _JSONB_LENGTH(len(request) + 1, _JSONB_VERSION),
            request,
        )
    )


def rejection(id_: bytes, code: str, detail: str, request: bytes, raw: bytes | None) -> bytes:
    """Return a row of `rejections`; a detail that text cannot store is escaped, because no reason may stop a batch."""
    printable = detail.encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")
    head = _COUNT_AND_ID(len(REJECTION_COLUMNS), _UUID_BYTES, id_)
    return head + field(code.encode()) + field(printable) + jsonb(request) + field(raw)


def keyed(key: bytes, id_: bytes, position: int | None, stream_id: int | None) -> bytes:
    """Return the fields of `idempotency_keys` that differ for each event; `key_row_suffix` completes the row.

    Both key and id have 16 bytes, so the order of their bytes is the order of keys, then of ids.
    """
    if position is None or stream_id is None:
        return _COUNT_AND_ID(len(KEYED_COLUMNS), _UUID_BYTES, key) + field(id_) + source(None, None)
    return _KEYED.pack(
        len(KEYED_COLUMNS), _UUID_BYTES, key, _UUID_BYTES, id_, _BIGINT_BYTES, position, _INTEGER_BYTES, stream_id
    )


def source(position: int | None, stream_id: int | None) -> bytes:
    """Return the fields that identify a work order's event in its source."""
    return bigint(position) + integer(stream_id)


def key_row_suffix(trigger_id: int, expires_at: int | None) -> bytes:
    """Return the fields that the keys of one call share; the time is in microseconds since the year 2000."""
    return integer(trigger_id) + bigint(expires_at)


def sources(keyed_rows: Iterable[bytes]) -> Iterator[tuple[int | None, int | None]]:
    """Return position and stream of each of what `keyed` returned."""
    for row in keyed_rows:
        yield _KEYED.unpack(row)[6::2] if len(row) == _KEYED.size else (None, None)


def copy(
    connection: Connection,
    table: LiteralString,
    columns: Sequence[LiteralString],
    encoded: Iterator[bytes],
    meanwhile: Iterable[None] = (),
) -> None:
    """Copy encoded rows into a table of the package; nothing is sent if there is none.

    `meanwhile` is work in small steps that is done when all rows are sent, while Postgres still stores them.
    """
    blocks = iter(lambda: b"".join(islice(encoded, _BLOCK_ROWS)), b"")
    first = next(blocks, b"")
    if not first:
        return
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
        sql.Identifier(SCHEMA, table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as stream:
        stream.write(HEADER)
        for block in chain([first], blocks):
            stream.write(block)
        stream.write(TRAILER)
        for _ in meanwhile:
            # What did not fit into the socket waits in libpq, and Postgres would wait for it.
            connection.pgconn.flush()
