"""Deletes rows that are too old in steps, so that no statement holds its locks and its snapshot for long."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, LiteralString

from workorders.core.postgres.connection import Connection

_STEP: Final = 10_000


def delete_before(connection: Connection, query: LiteralString, before: datetime) -> Iterator[None]:
    """Delete what is older, some rows per step; see `workorders.core.maintenance.retention.Shorten`.

    Args:
        connection: of retention.
        query: deletes rows older than `before`, and at most `limit` of them.
        before: the first time that is kept.

    Yields:
        For each step. The caller commits before it asks for the next one.
    """
    is_done = False
    while not is_done:
        is_done = connection.execute(query, {"before": before, "limit": _STEP}).rowcount < _STEP
        yield
