"""Retention of the results that transactions have stored in databases of the user."""

from datetime import timedelta
from uuid import UUID

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.maintenance", "sql/steps.sql")


def purge_steps(connection: Connection, work_orders: Connection, *, older_than: timedelta, step: int = 1_000) -> int:
    """Delete the rows of transactions of work orders that can never run again; return their number.

    Such a work order was deleted by retention, or its input was erased. A row of any other one is kept, however old:
    without it, the next run would execute the transaction again.

    Args:
        connection: to the database of the transactions, without an open transaction; each step has its own.
        work_orders: to the database of the work orders, likewise.
        older_than: the least age of a deleted row.
        step: work orders of one step.
    """
    deleted, ids = 0, [UUID(int=0)]
    while ids:
        with connection.transaction():
            old = {"after": ids[-1], "age": older_than, "limit": step}
            ids = [id_ for (id_,) in connection.execute(_QUERIES["old"], old)]
        with work_orders.transaction():
            runnable = {id_ for (id_,) in work_orders.execute(_QUERIES["runnable"], {"ids": ids})}
        with connection.transaction():
            gone = {"ids": [id_ for id_ in ids if id_ not in runnable], "age": older_than}
            deleted += connection.execute(_QUERIES["delete"], gone).rowcount
    return deleted
