"""COPY of rows that are encoded while Postgres stores the ones before."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, LiteralString

from psycopg import sql

from workorders.core import rows
from workorders.core.database import SCHEMA, Connection

_BLOCK_ROWS: Final = 500


def copy(
    connection: Connection, table: LiteralString, columns: Sequence[LiteralString], encoded: Iterator[bytes]
) -> None:
    """Copy rows of `rows` into a table, block by block, in the caller's transaction; nothing is sent if there is none.

    Raises:
        psycopg.Error: Postgres refused a row; the caller must roll back.
    """
    block = b"".join(islice(encoded, _BLOCK_ROWS))
    if not block:
        return
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
        sql.Identifier(SCHEMA, table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with connection.cursor() as cursor, cursor.copy(statement) as stream:
        stream.write(rows.HEADER)
        while block:
            stream.write(block)
            block = b"".join(islice(encoded, _BLOCK_ROWS))
        stream.write(rows.TRAILER)
