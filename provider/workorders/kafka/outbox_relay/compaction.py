"""Leaves out messages that a later one of the same key replaces, for topics with `compact`."""

from collections import Counter
from collections.abc import Collection, Sequence

from workorders.outbox.store.rows import ROW_TOPIC, OutboxRow, Row


def compacted(rows: Sequence[Row], topics: Collection[str]) -> tuple[Sequence[Row], Counter[str]]:
    """Return the rows to send, and how many of each topic are left out.

    Rows of a key are in the order in which they are to be sent. Messages without a key or with an explicit partition
    are always sent.
    """
    if not topics or not any(row[ROW_TOPIC] in topics for row in rows):
        return rows, Counter()
    named = [OutboxRow._make(row) for row in rows]
    last = {(row.topic, row.key): row.id for row in named if row.topic in topics and _is_replaceable(row)}
    kept = [row for row in named if last.get((row.topic, row.key), row.id) == row.id or not _is_replaceable(row)]
    return kept, Counter(row.topic for row in named) - Counter(row.topic for row in kept)


def _is_replaceable(row: OutboxRow) -> bool:
    return row.key is not None and row.partition is None
