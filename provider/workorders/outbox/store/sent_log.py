"""The log of sent messages, which are kept for a time."""

import time
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox.store", "sql/sent_log.sql")

_CHUNK_ROWS: Final = 5_000


def prune_sent_log(connection: Connection, *, older_than: float, max_seconds: float) -> bool:
    """Delete expired messages, oldest first and in chunks; return whether none is left.

    Args:
        connection: the relay's.
        older_than: seconds for which sent messages are kept.
        max_seconds: time after which no further chunk is started.
    """
    deadline = time.monotonic() + max_seconds
    while True:
        with connection.transaction():
            arguments = {"seconds": older_than, "limit": _CHUNK_ROWS}
            deleted = connection.execute(_QUERIES["prune_sent_log"], arguments).rowcount
        if deleted < _CHUNK_ROWS:
            return True
        if time.monotonic() > deadline:
            return False
