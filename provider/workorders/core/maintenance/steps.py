"""Deletes results of transactions from the databases of workflows, after retention deleted or erased their work orders.

Retention notes the ids, so nothing is deleted that belongs to another installation, or whose work order can run again.
"""

from datetime import timedelta
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.maintenance", "sql/steps.sql")

_WAIT: Final = timedelta(days=1)
"""A lost process that was suspended may wake up later. It must find its rows, or it would write again."""


def list_databases(connection: Connection) -> list[str]:
    """Return the Airflow connections to the databases from which rows are to be deleted now."""
    return [name for (name,) in connection.execute(_QUERIES["databases"], {"wait": _WAIT})]


def delete_steps(work_orders: Connection, connection_id: str, database: Connection, *, step: int = 1_000) -> int:
    """Delete the rows that are due in the database of an Airflow connection, and return their number.

    Args:
        work_orders: to the database of the work orders, without an open transaction; each step has its own.
        connection_id: the Airflow connection.
        database: to its database, likewise.
        step: work orders of one step.
    """
    deleted = 0
    while True:
        # No transaction is open while the other database is asked, which may hang. What fails between two of these
        # steps is repeated by the next call.
        with work_orders.transaction():
            due = {"connection": connection_id, "wait": _WAIT, "limit": step}
            ids = [id_ for (id_,) in work_orders.execute(_QUERIES["due"], due)]
        if not ids:
            return deleted
        with database.transaction():
            deleted += database.execute(_QUERIES["delete"], {"ids": ids}).rowcount
        with work_orders.transaction():
            work_orders.execute(_QUERIES["forget"], {"connection": connection_id, "ids": ids})
