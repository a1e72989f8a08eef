"""What was sent and is kept for a time."""

import time
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")

_ROWS_AT_ONCE: Final = 5_000


def forget(connection: Connection, *, older_than: float, within: float) -> bool:
    """Delete what was sent so many seconds ago, a piece at a time and oldest first; say whether all of it is gone.

    Args:
        connection: the relay's.
        older_than: seconds for which sent messages are kept.
        within: seconds after which no further piece is begun.
    """
    deadline = time.monotonic() + within
    while True:
        with connection.transaction():
            arguments = {"seconds": older_than, "most": _ROWS_AT_ONCE}
            deleted = connection.execute(_QUERIES["forget_sent"], arguments).rowcount
        if deleted < _ROWS_AT_ONCE:
            return True
        if time.monotonic() > deadline:
            return False
