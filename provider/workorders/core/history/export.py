"""Exports work orders as JSON Lines, in parts: to a file of the command line, or to a browser."""

from collections.abc import Generator
from tempfile import SpooledTemporaryFile
from typing import Final
from uuid import UUID

import orjson

from workorders.core.history import work_orders
from workorders.core.history.filters import Filter, until_now
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/export.sql", blocks_from="sql/filters.sql")

STEP: Final = 200
"""Work orders that are read at once, while the caller waits."""
_PART: Final = 64 * 1024
_IN_MEMORY: Final = 1024 * 1024
"""Bytes of a step that are kept in memory; what is more goes to a temporary file."""


def parts(connection: Connection, wanted: Filter) -> Generator[bytes]:
    """Yield an export in parts, the oldest work order first; work orders that are created meanwhile are not in it.

    It reads a whole step before the caller gets the first part of it, and no transaction is open while the caller has a
    part: a slow caller must not keep one open. What is deleted meanwhile is left out.
    """
    with SpooledTemporaryFile(_IN_MEMORY) as lines:
        with connection.transaction():
            wanted = until_now(connection, wanted)
        after: UUID | None = None
        is_complete = False
        while not is_complete:
            with connection.transaction():
                found = work_orders.find_matching(connection, wanted, after=after, limit=STEP)
                # Row by row, because a body may be hundreds of times as long as its stored form. Not by `writelines`,
                # which leaves memory only after the last line.
                for (line,) in connection.cursor().stream(_QUERIES["lines"], {"ids": found.ids}):
                    lines.write(f"{line}\n".encode())
            after = found.looked_until
            is_complete = after is None
            lines.seek(0)
            while part := lines.read(_PART):
                yield part
            lines.seek(0)
            lines.truncate()


def cut_off(sentence: str) -> bytes:
    """Return the last line of a file that is not complete, which no reader takes for a work order."""
    return orjson.dumps({"error": sentence}, option=orjson.OPT_APPEND_NEWLINE)
