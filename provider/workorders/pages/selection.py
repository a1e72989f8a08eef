"""Counts the work orders of a selection, which takes seconds if they are millions, within the time that a page has."""

from collections.abc import Mapping
from typing import Final

import psycopg

from workorders.core.bulk import jobs
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.pages", "sql/selection.sql")

_FIRST_MILLISECONDS: Final = 100
"""For the first answer; a page that has no count then asks again by itself."""
_MAX_MILLISECONDS: Final = 14_000
"""A second less than the browser waits for an answer."""


def count(connection: Connection, wanted: Filter, *, patiently: bool) -> Mapping[str, int] | None:
    """Return the number of work orders by state; None if to count them takes too long. It ends the transaction.

    Args:
        connection: in a transaction that has changed nothing.
        wanted: the selection.
        patiently: whether it may take seconds.

    Raises:
        UnknownTriggerError: no trigger has that name.
        UnknownWorkflowError: no workflow has that name.
        UnknownWorkOrderError: the filter names a work order that does not exist.
    """
    connection.rollback()
    try:
        milliseconds = _MAX_MILLISECONDS if patiently else _FIRST_MILLISECONDS
        connection.execute(_QUERIES["limit_time"], {"milliseconds": milliseconds})
        return jobs.count_matching(connection, wanted)
    except psycopg.errors.QueryCanceled:
        return None
    finally:
        connection.rollback()
