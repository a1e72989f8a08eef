"""Reads what an audit compares from Postgres: short transactions, and no more than a page of rows in memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from random import Random
from typing import Any, Final
from uuid import UUID

from psycopg.rows import class_row

from workorders.audit.findings import REPORT, Check, Finding
from workorders.audit.messages import StoredMessage
from workorders.audit.partitions import FinishedRange, Ledger, Move, StoredCounts
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.partitions import Record

_PARTITIONS = load_queries("workorders.audit", "sql/partitions.sql")
_MESSAGES = load_queries("workorders.audit", "sql/messages.sql")
_RUNS = load_queries("workorders.audit", "sql/runs.sql")

_PAGE: Final = 100
"""Ranges whose work orders one statement counts."""
_WINDOW: Final = 1_000
"""Work orders that are compared with their parts by one statement."""
_WINDOWS: Final = 5
_LIMIT: Final = 100
"""Findings of one query."""
_PAUSE: Final = f"Pause the Dag of the workflow's runs. {REPORT}"


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Open a transaction whose statements see one moment and end after a minute."""
    with connection.transaction():
        connection.execute(_PARTITIONS["begin"])
        yield


def ledger(connection: Connection, place: Mapping[str, Any]) -> Ledger | None:
    """Return the ledger of a partition, inside of a snapshot; None if its topic was removed meanwhile."""
    with connection.cursor(row_factory=class_row(Ledger)) as cursor:
        return cursor.execute(_PARTITIONS["ledger"], place).fetchone()


def moves(connection: Connection, log: Mapping[str, Any]) -> list[Move]:
    """Return the decisions within a log."""
    return connection.execute(_PARTITIONS["moves"], log).fetchall()


def ranges(connection: Connection, log: Mapping[str, Any]) -> Iterator[FinishedRange]:
    """Yield the finished ranges of a log in the order of their starts; a year of small batches has very many."""
    with connection.cursor(name="audit_ranges") as cursor:
        cursor.itersize = _PAGE * 10
        for row in cursor.execute(_PARTITIONS["ranges"], log):
            yield FinishedRange(*row)


def logs(connection: Connection, place: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the topic ids and generations of all logs of a partition that have ranges."""
    with snapshot(connection):
        return connection.execute(_PARTITIONS["logs"], place).fetchall()


def counts(connection: Connection, log: Mapping[str, Any], stream: str) -> Iterator[StoredCounts]:
    """Yield the finished ranges of a log with what is stored of each."""
    after = (-1, 0)
    while True:
        arguments = {**log, "stream": stream, "after_start": after[0], "after_batch": after[1], "limit": _PAGE}
        with snapshot(connection):
            page = [StoredCounts(*row) for row in connection.execute(_PARTITIONS["counts"], arguments)]
        if not page:
            return
        yield from page
        after = (page[-1].start, page[-1].batch_id)


def next_offset(connection: Connection, place: Mapping[str, Any]) -> int | None:
    """Return where the ledger is now; None if the partition was removed."""
    with snapshot(connection):
        row = connection.execute(_PARTITIONS["next_offset"], place).fetchone()
    return None if row is None else int(row[0])


def definition(connection: Connection, trigger: str) -> tuple[dict[str, Any], datetime | None]:
    """Return the definition of a trigger, and when it was last changed; None if it never was."""
    with snapshot(connection):
        found, changed_at = fetch_row(connection, _MESSAGES["trigger"], {"trigger": trigger})
    return found, changed_at


def positions(connection: Connection, trigger: str, stream: str, start: int, end: int) -> set[int]:
    """Return the positions of a stream from start to end that have a work order."""
    arguments = {"trigger": trigger, "stream": stream, "start": start, "end": end}
    with snapshot(connection):
        return {position for (position,) in connection.execute(_MESSAGES["positions"], arguments)}


def compare(connection: Connection, trigger: str, item: Item, record: Record) -> StoredMessage | None:
    """Return the work order of a message, compared with the item; None if there is none.

    Raises:
        psycopg.Error: one of `VALUE_ERRORS` if Postgres can store no such input.
    """
    values = {record.value, item.body, item.raw} - {None}
    arguments = {
        "trigger": trigger,
        "stream": item.stream,
        "position": item.position,
        "body": None if item.body is None else item.body.decode(),
        "request": item.request.decode(),
        "raws": list(values),
        "is_null": record.value is None,
    }
    with snapshot(connection), connection.cursor(row_factory=class_row(StoredMessage)) as cursor:
        return cursor.execute(_MESSAGES["compare"], arguments).fetchone()


def check_runs(connection: Connection) -> Iterator[Finding]:
    """Compare runs with their work orders and workers, and sequences with what is parked."""
    for query in ("unowned", "unfinished_runs", "without_run", "sequences"):
        with snapshot(connection):
            rows = connection.execute(_RUNS[query], {"limit": _LIMIT}).fetchall()
        yield from (_of_workflow(Check.RUNS, row) for row in rows)


def check_parts(connection: Connection, random: Random) -> Iterator[Finding]:
    """Compare work orders with their inputs, rejections, and last runs: the oldest ones, and others by chance."""
    with snapshot(connection):
        first, last = fetch_row(connection, _RUNS["ends"], {})
    starts = [UUID(int=0)]
    if first is not None:
        starts += [UUID(int=random.randint(first.int, last.int)) for _ in range(_WINDOWS - 1)]
    seen: set[Finding] = set()
    for start in starts:
        with snapshot(connection):
            rows = connection.execute(_RUNS["parts"], {"from": start, "window": _WINDOW, "limit": _LIMIT}).fetchall()
        found = {_of_workflow(Check.PARTS, row) for row in rows}
        yield from sorted(found - seen, key=lambda finding: finding.what)
        seen |= found


def _of_workflow(check: Check, row: Sequence[Any]) -> Finding:
    workflow, what = row
    return Finding(check=check, what=what, action=_PAUSE if check is Check.RUNS else REPORT, workflow=workflow)
