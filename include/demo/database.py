"""What Postgres holds, asked with plain SQL."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row

from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("demo", "queries.sql")


@dataclass(frozen=True, slots=True)
class Progress:
    """How many work orders there are, and how many of them are rejected."""

    created: int
    rejected: int


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """One work order with its input or its rejection."""

    position: int
    state: str
    created_at: float
    """Seconds since 1970, when the transaction that made it began."""
    request: Mapping[str, Any]
    body: Mapping[str, Any] | None
    reason: str | None
    raw: bytes | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch and what came of it."""

    id: int
    work_orders: int
    """How many it made, rejected ones included."""


class Database:
    """The work orders' database."""

    def __init__(self, url: str) -> None:
        self._url = url

    def progress(self) -> Progress:
        """Count the work orders."""
        with self._connect() as connection, connection.cursor(row_factory=class_row(Progress)) as cursor:
            return cursor.execute(_QUERIES["progress"]).fetchall()[0]

    def work_orders(self) -> list[WorkOrder]:
        """Return all of them."""
        with self._connect() as connection, connection.cursor(row_factory=class_row(WorkOrder)) as cursor:
            return cursor.execute(_QUERIES["work_orders"]).fetchall()

    def ledger(self, trigger: str, topic: str) -> dict[int, int]:
        """Return the next offset of each partition."""
        with self._connect() as connection:
            rows = connection.execute(_QUERIES["ledger"], {"trigger": trigger, "topic": topic})
            return dict(rows.fetchall())

    def batches(self) -> list[Batch]:
        """Return all batches, the oldest first."""
        with self._connect() as connection, connection.cursor(row_factory=class_row(Batch)) as cursor:
            return cursor.execute(_QUERIES["batches"]).fetchall()

    def fingerprint(self) -> tuple[Any, ...]:
        """Return what changes when any row of the work orders or the ledger's offsets do."""
        with self._connect() as connection:
            return connection.execute(_QUERIES["fingerprint"]).fetchall()[0]

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._url, autocommit=True, application_name="demo")
