"""Leaves out what a later message of the same key makes worthless, for the topics that ask for it."""

from collections import Counter
from collections.abc import Collection, Sequence

from workorders.outbox.store.rows import ROW_TOPIC, OutboxRow, Row


def compacted(rows: Sequence[Row], topics: Collection[str]) -> tuple[Sequence[Row], Counter[str]]:
    """Return the rows to send, and how many of each topic are left out.

    Rows of a key stand in the order in which they are to be sent; messages without a key all stay, and so do those
    for a partition of their own choice.
    """
    if not topics or not any(row[ROW_TOPIC] in topics for row in rows):
        return rows, Counter()
    named = [OutboxRow._make(row) for row in rows]
    last = {(row.topic, row.key): row.id for row in named if row.topic in topics and _may_go(row)}
    kept = [row for row in named if last.get((row.topic, row.key), row.id) == row.id or not _may_go(row)]
    return kept, Counter(row.topic for row in named) - Counter(row.topic for row in kept)


def _may_go(row: OutboxRow) -> bool:
    return row.key is not None and row.partition is None
