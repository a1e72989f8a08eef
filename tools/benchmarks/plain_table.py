"""The one table that plain COPY and Airflow's own operator write into, with the same values as our tables get."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import psycopg

from benchmarks import messages
from workorders.core.ids import increasing_ids

TABLE = "plain_rows"
COLUMNS = '(id, topic, partition, "offset", body, request)'
Row = tuple[bytes, str, int, int, bytes, bytes]
"""Identifier (16 bytes), topic, partition, offset, body and request (JSON text)."""

_BLOCK_ROWS = 200


def create(url: str) -> None:
    """Drop the table, and create it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        connection.execute(
            f"CREATE TABLE {TABLE} (id uuid PRIMARY KEY DEFAULT uuidv7(), topic text NOT NULL, "
            f'partition integer NOT NULL, "offset" bigint NOT NULL, body jsonb NOT NULL, request jsonb NOT NULL, '
            f'UNIQUE (topic, partition, "offset"))'
        )


def rows(topic: str, partition: int, count: int) -> list[Row]:
    """Return the values of one partition's messages."""
    made = messages.items(topic, partition, count, "")
    return [
        (id_, topic, partition, item.position or 0, item.body or b"", item.request)
        for id_, item in zip(increasing_ids(), made, strict=False)
    ]


def as_text(values: Sequence[Row]) -> list[bytes]:
    """Return blocks of COPY's text format; the values hold no tab or line break, and their backslashes are doubled."""
    lines = (
        b"%b\t%b\t%d\t%d\t%b\t%b\n"
        % (id_.hex().encode(), topic.encode(), partition, offset, _escaped(body), _escaped(request))
        for id_, topic, partition, offset, body, request in values
    )
    return list(_blocks(lines))


def as_binary(values: Sequence[Row]) -> list[bytes]:
    """Return blocks of COPY's binary format, header and trailer included."""
    return [b"PGCOPY\n\xff\r\n\0" + bytes(8), *_blocks(map(_binary, values)), b"\xff\xff"]


def _blocks(encoded: Iterable[bytes]) -> Iterator[bytes]:
    iterator = iter(encoded)
    while block := b"".join(islice(iterator, _BLOCK_ROWS)):
        yield block


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\")


def _binary(row: Row) -> bytes:
    id_, topic, partition, offset, body, request = row
    name = topic.encode()
    return b"".join(
        (
            struct.pack(">hi16si", 6, 16, id_, len(name)),
            name,
            struct.pack(">iiiqic", 4, partition, 8, offset, len(body) + 1, b"\1"),
            body,
            struct.pack(">ic", len(request) + 1, b"\1"),
            request,
        )
    )
