"""A lock that an attempt at a batch holds as long as its process lives."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress

import psycopg

from workorders.core.postgres.connection import Connection, connect, drop_snapshot
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.kafka.ledger", "sql/attempt_lock.sql")


@contextmanager
def attempt_lock(database_url: str, batch_id: int) -> Iterator[Connection]:
    """Hold the batch's lock in shared mode during the context; attempts do not block one another.

    Postgres releases the lock when the connection ends, after any end of the process. A lost connection does not fail
    the attempt, because its epoch fences it, not this lock.

    Yields the connection whose transaction holds the lock.

    Raises:
        psycopg.Error: the database cannot be reached, or an operator's decision holds the batch for too long.
    """
    connection = connect(database_url, application_name=f"workorders attempt at batch {batch_id}")
    with closing(connection):
        # In a transaction and not in the session: a pooler may keep a session after its client has died.
        connection.execute(_QUERIES["keep_transaction"])
        connection.execute(_QUERIES["hold_attempt"], {"class": AdvisoryLock.ATTEMPT, "batch_id": batch_id})
        drop_snapshot(connection)
        try:
            yield connection
        finally:
            # This releases the lock at once; the end of the connection would release it a moment later.
            with suppress(psycopg.Error):
                connection.rollback()


def try_exclude_attempts(connection: Connection, batch_ids: Sequence[int]) -> set[int]:
    """Return the batches at which no attempt is running; none starts until the caller's transaction ends."""
    arguments = {"class": AdvisoryLock.ATTEMPT, "batch_ids": list(batch_ids)}
    return {id_ for (id_,) in connection.execute(_QUERIES["try_exclude_attempts"], arguments)}
