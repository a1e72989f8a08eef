"""Reads what an audit compares from Postgres: short transactions, and no more than a page of rows in memory.

Its only row is the last report, which the pages show.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from random import Random
from typing import Any, Final, LiteralString
from uuid import UUID

import orjson
from pydantic import TypeAdapter

from workorders.audit.findings import REPORT, AuditReport, Check, Finding
from workorders.audit.messages import StoredMessage
from workorders.audit.partitions import FinishedRange, Ledger, StoredCounts
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, find_row
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import Record

_QUERIES = load_queries("workorders.audit", "sql/stored.sql")

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
        connection.execute(_QUERIES["begin"])
        yield


def ledger(connection: Connection, place: Mapping[str, Any]) -> Ledger | None:
    """Return the ledger of a partition, inside of a snapshot; None if its topic was removed meanwhile."""
    return find_row(connection, Ledger, _QUERIES["ledger"], place)


def ranges(connection: Connection, ledger: Ledger) -> Iterator[FinishedRange]:
    """Yield the finished ranges of the followed log, inside of a snapshot, in the order of their starts.

    A year of small batches has very many.
    """
    with connection.cursor(name="audit_ranges") as cursor:
        cursor.itersize = _PAGE * 10
        for row in cursor.execute(_QUERIES["ranges"], asdict(ledger)):
            yield FinishedRange(*row)


def logs(connection: Connection, ledger: Ledger) -> list[tuple[str, int]]:
    """Return the topic ids and generations of all logs of a partition that have ranges."""
    return _fetch(connection, _QUERIES["logs"], asdict(ledger))


def counts(connection: Connection, ledger: Ledger, topic_id: str, generation: int) -> Iterator[StoredCounts]:
    """Yield the finished ranges of a log of the partition with what is stored of each."""
    stream = stream_name(replace(ledger.log, topic_id=topic_id), generation)
    log = {**asdict(ledger), "topic_id": topic_id, "generation": generation, "stream": stream, "limit": _PAGE}
    after = {"after_start": -1, "after_batch": 0}
    while page := [StoredCounts(*row) for row in _fetch(connection, _QUERIES["counts"], {**log, **after})]:
        yield from page
        after = {"after_start": page[-1].start, "after_batch": page[-1].batch_id}


def definition(connection: Connection, trigger: str) -> tuple[dict[str, Any], datetime | None]:
    """Return the definition of a trigger, and when it was last changed; None if it never was."""
    ((found, changed_at),) = _fetch(connection, _QUERIES["trigger"], {"trigger": trigger})
    return found, changed_at


def positions(connection: Connection, ledger: Ledger, start: int, end: int) -> set[int]:
    """Return the positions of the followed log from start to end that have a work order."""
    arguments = {"stream_id": ledger.stream_id, "start": start, "end": end}
    return {position for (position,) in _fetch(connection, _QUERIES["positions"], arguments)}


def compare(connection: Connection, ledger: Ledger, item: Item, record: Record) -> StoredMessage | None:
    """Return the work order of a message, compared with the item; None if there is none.

    Raises:
        psycopg.Error: one of `VALUE_ERRORS` if Postgres can store no such input.
    """
    values = {record.value, item.body, item.raw} - {None}
    arguments = {
        "stream_id": ledger.stream_id,
        "position": item.position,
        "body": None if item.body is None else item.body.decode(),
        "request": item.request.decode(),
        "raws": list(values),
        "is_null": record.value is None,
    }
    with snapshot(connection):
        return find_row(connection, StoredMessage, _QUERIES["compare"], arguments)


def check_runs(connection: Connection) -> Iterator[Finding]:
    """Compare runs with their work orders and workers, and sequences with what is parked."""
    for query in ("unfinished_runs", "sequences"):
        for workflow, what in _fetch(connection, _QUERIES[query], {"limit": _LIMIT}):
            yield Finding(check=Check.RUNS, what=what, action=_PAUSE, workflow=workflow)


def check_parts(connection: Connection, random: Random) -> Iterator[Finding]:
    """Compare work orders with their inputs, rejections, and last runs: the oldest ones, and others by chance."""
    ((first, last),) = _fetch(connection, _QUERIES["ends"], {})
    starts = [UUID(int=0)]
    if first is not None:
        starts += [UUID(int=random.randint(first.int, last.int)) for _ in range(_WINDOWS - 1)]
    arguments = ({"from": start, "window": _WINDOW, "limit": _LIMIT} for start in starts)
    rows = {row for given in arguments for row in _fetch(connection, _QUERIES["parts"], given)}
    for workflow, what in sorted(rows, key=str):
        yield Finding(check=Check.PARTS, what=what, action=REPORT, workflow=workflow)


def write_report(connection: Connection, report: AuditReport) -> None:
    """Store a report instead of the last one, and commit."""
    with connection.transaction():
        connection.execute(_QUERIES["write_report"], {"report": orjson.dumps(report).decode()})


def read_report(connection: Connection) -> AuditReport | None:
    """Return the last report; None before the first audit."""
    row = connection.execute(_QUERIES["read_report"]).fetchone()
    return None if row is None else TypeAdapter(AuditReport).validate_json(row[0])


def _fetch(connection: Connection, query: LiteralString, arguments: Mapping[str, Any]) -> list[Any]:
    with snapshot(connection):
        return connection.execute(query, arguments).fetchall()
