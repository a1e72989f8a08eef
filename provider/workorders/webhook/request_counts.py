"""Counts the answers of webhooks by status, and adds them to the database's totals every few seconds.

A row per request would cost as much as the request. Each process of each server counts its own, and all add to the same
rows. What a process has counted since its last addition is lost if it dies.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import psycopg

from workorders.core.exceptions import one_line
from workorders.core.metrics import Metric, Reading
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.webhook.refusals import TryAgainError

_LOG = logging.getLogger(__name__)
_QUERIES = load_queries("workorders.webhook", "sql/request_counts.sql")

ADD_SECONDS: Final = 5.0

Counts = Mapping[tuple[str, int], int]
"""Number of answers, by the name of the webhook and the HTTP status."""

READINGS: Final = (
    Reading(
        ("trigger", "status"),
        (
            Metric(
                "workorders.webhook.requests",
                "counter",
                "{request}",
                "Answers of a webhook by HTTP status, refusals included; some seconds late.",
            ),
        ),
        _QUERIES["read"],
    ),
)


class RequestCounts:
    """The counts of one process. Used on one event loop.

    Args:
        add: adds counts to the totals in the database of an Airflow connection.
        seconds: time from the first answer that is counted to the addition.
    """

    def __init__(self, add: Callable[[str, Counts], Awaitable[None]], seconds: float = ADD_SECONDS) -> None:
        self._add = add
        self._seconds = seconds
        self._counts: defaultdict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
        self._adding: asyncio.Task[None] | None = None

    def count(self, database_connection: str, webhook: str, status: int) -> None:
        """Count one answer."""
        self._counts[database_connection][webhook, status] += 1
        if self._adding is None or self._adding.done():
            self._adding = asyncio.create_task(self._add_later())

    async def _add_later(self) -> None:
        await asyncio.sleep(self._seconds)
        counts, self._counts = self._counts, defaultdict(Counter)
        for database_connection, found in counts.items():
            try:
                await self._add(database_connection, found)
            except (psycopg.Error, TryAgainError) as error:
                _LOG.warning("Answers of webhooks were not counted yet: %s", one_line(error))
                self._counts[database_connection].update(found)


def add_counts(connection: Connection, counts: Counts) -> None:
    """Add counts to the totals, in one statement."""
    connection.execute(
        _QUERIES["add"],
        {
            "triggers": [name for name, _ in counts],
            "statuses": [status for _, status in counts],
            "requests": list(counts.values()),
        },
    )
