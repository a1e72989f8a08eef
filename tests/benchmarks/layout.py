"""What the layout of the tables costs: to fill them, to take work orders through their states, to wipe, on the disk."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

import psycopg

from benchmarks.layouts import MAKE_SAMPLES, Layout

_CHUNK = 100_000
_GROUP = 100
"""Work orders that are claimed, finished or wiped in one transaction."""

Connection = psycopg.Connection[tuple[int]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one layout cost."""

    filled_per_second: float
    worked_per_second: float
    """Work orders claimed and finished, in groups, at random places."""
    worked_wal_bytes: float
    """Bytes of write-ahead log a work order that was claimed and finished."""
    wiped_per_second: float
    disk_bytes: float
    """Bytes on the disk a work order, indexes included, before anything was changed."""


def measure(url: str, layout: Layout, rows: int, touched: int) -> Cost:
    """Fill the layout with `rows` work orders, work at `touched` of them at random places, and wipe as many others."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS layout CASCADE")
        connection.execute("CREATE SCHEMA layout")
        connection.execute(MAKE_SAMPLES)
        for statement in layout.create:
            connection.execute(statement)
        try:
            return _cost(connection, layout, rows, touched)
        finally:
            connection.execute("DROP SCHEMA layout CASCADE")


def _cost(connection: Connection, layout: Layout, rows: int, touched: int) -> Cost:
    filling = _seconds(lambda: _fill(connection, layout, rows))
    _settle(connection)
    size = _one(connection, _SIZE)
    chosen = [UUID(int=number) for number in Random(rows).sample(range(rows), 2 * touched)]
    before = _one(connection, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
    working = _seconds(lambda: _work(connection, layout, chosen[:touched]))
    written = _one(connection, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn") - before
    _settle(connection)
    wiping = _seconds(lambda: _run(connection, [layout.wipe], chosen[touched:]))
    return Cost(rows / filling, touched / working, written / touched, touched / wiping, size / rows)


def _fill(connection: Connection, layout: Layout, rows: int) -> None:
    for start in range(0, rows, _CHUNK):
        with connection.transaction():
            for statement in layout.fill:
                connection.execute(statement, {"start": start, "end": min(start + _CHUNK, rows)})


def _work(connection: Connection, layout: Layout, ids: Sequence[UUID]) -> None:
    _run(connection, layout.claim, ids)
    _run(connection, layout.finish, ids)


def _run(connection: Connection, statements: Iterable[str], ids: Sequence[UUID]) -> None:
    for start in range(0, len(ids), _GROUP):
        with connection.transaction():
            for statement in statements:
                connection.execute(statement, {"ids": ids[start : start + _GROUP]})


def _settle(connection: Connection) -> None:
    """Leave no work to the background that would be counted to the next step."""
    for table in ("work_orders", "dataclips", "runs"):
        if _one(connection, f"SELECT (to_regclass('layout.{table}') IS NOT NULL)::integer"):
            connection.execute(f"VACUUM (ANALYZE) layout.{table}")


_SIZE = """\
SELECT sum(pg_total_relation_size(pg_class.oid))::bigint
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'layout' AND relkind = 'r'"""


def _one(connection: Connection, query: str) -> int:
    row = connection.execute(query).fetchone()
    if row is None:  # cannot be: these queries return one row
        raise LookupError(query)
    return int(row[0])


def _seconds(step: Callable[[], None]) -> float:
    begun = time.monotonic()
    step()
    return time.monotonic() - begun
