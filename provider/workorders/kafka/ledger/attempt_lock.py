"""Says that an attempt at a batch is at work, for as long as it lives and no longer."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import psycopg

from workorders.core.postgres.connection import Connection, connect
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.kafka.ledger", "sql/attempt_lock.sql")


@contextmanager
def attempt_lock(database_url: str, batch_id: int) -> Iterator[Connection]:
    """Hold the batch's lock while the context lasts; any number of attempts hold it together.

    Postgres releases it when the connection ends, however the process ended: a dead attempt holds nothing. Losing the
    connection is no failure of the attempt, which is fenced by its epoch and not by this lock.

    Yields the connection whose transaction holds the lock; nobody needs to use it.

    Raises:
        psycopg.Error: the database cannot be reached, or an operator's decision holds the batch for too long.
    """
    connection = connect(database_url, application_name=f"workorders attempt at batch {batch_id}")
    with closing(connection):
        # In a transaction and not in the session: a pooler may keep a session alive behind a client that is gone.
        connection.execute(_QUERIES["stay"])
        connection.execute(_QUERIES["hold_attempt"], {"batch_id": batch_id})
        try:
            yield connection
        finally:
            # The lock is free when this returns; by the connection's end alone it would be some moments later.
            with suppress(psycopg.Error):
                connection.rollback()


def try_exclude_attempts(connection: Connection, batch_id: int) -> bool:
    """Return whether no attempt at the batch is at work; if so, none begins until the caller's transaction ends."""
    row = connection.execute(_QUERIES["try_exclude_attempts"], {"batch_id": batch_id}).fetchone()
    return bool(row and row[0])
