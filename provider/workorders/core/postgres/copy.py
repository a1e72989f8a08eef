"""COPY of rows that are encoded while Postgres stores the ones before."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, LiteralString

from psycopg import sql

from workorders.core.postgres import binary_rows
from workorders.core.postgres.connection import SCHEMA, Connection

_BLOCK_ROWS: Final = 500


def copy(
    connection: Connection,
    table: LiteralString,
    columns: Sequence[LiteralString],
    encoded: Iterator[bytes],
    meanwhile: Iterable[None] = (),
) -> None:
    """Copy rows of `binary_rows` into a table of the package; nothing is sent if there is none.

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
        stream.write(binary_rows.HEADER)
        for block in chain([first], blocks):
            stream.write(block)
        stream.write(binary_rows.TRAILER)
        for _ in meanwhile:
            # What did not fit into the socket waits in libpq, and Postgres would wait for it.
            connection.pgconn.flush()
