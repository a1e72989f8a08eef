"""The positions of deleted work orders, so that a replay does not create them again.

The unique source key of a work order is deleted with it. So the positions are stored as ranges, and creating what is
missing skips them. Creating new events reads nothing here.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.creation", "sql/deleted_positions.sql")

WorkOrderKey = tuple[UUID, int | None, int | None]
"""The id, stream, and position of a work order."""


def delete(connection: Connection, rows: Sequence[WorkOrderKey]) -> list[WorkOrderKey]:
    """Delete work orders with all their parts, in the caller's transaction.

    Returns:
        Those that were not deleted, because a replay creates missing ones of their stream at this moment.
    """
    free = {stream for stream in {row[1] for row in rows} if stream is None or _lock(connection, stream)}
    gone = [row for row in rows if row[1] in free]
    if gone:
        connection.execute(_QUERIES["delete"], {"ids": [id_ for id_, _, _ in gone]})
        _remember(connection, gone)
    return [row for row in rows if row[1] not in free]


def block_deletions(connection: Connection, stream_id: int) -> None:
    """Let no work order of the stream be deleted until the transaction ends."""
    connection.execute(_QUERIES["lock_stream_shared"], {"class": AdvisoryLock.STREAM, "stream_id": stream_id})


def note_whole(connection: Connection, stream_id: int, start: int, end: int, work_orders: int) -> None:
    """Record that every event in `[start, end)` of a stream has a work order, and how many there are.

    Call it in the transaction that has read the whole range. When all of them are deleted, the gaps between them are
    known to be empty, and one row represents the range. A range without gaps, or an empty one, needs no record.
    """
    if 0 < work_orders < end - start:
        connection.execute(
            _QUERIES["note_whole"], {"stream_id": stream_id, "start": start, "end": end, "work_orders": work_orders}
        )


def _lock(connection: Connection, stream_id: int) -> bool:
    arguments = {"class": AdvisoryLock.STREAM, "stream_id": stream_id}
    return bool(fetch_row(connection, _QUERIES["lock_stream"], arguments)[0])


def _remember(connection: Connection, gone: Iterable[WorkOrderKey]) -> None:
    positions: defaultdict[int, list[int]] = defaultdict(list)
    for _, stream_id, position in gone:
        if stream_id is not None and position is not None:
            positions[stream_id].append(position)
    for stream_id, given in positions.items():
        arguments = {"stream_id": stream_id, "first": min(given), "last": max(given)}
        connection.execute(_QUERIES["remember"], {**arguments, "positions": given})
        while connection.execute(_QUERIES["close_gaps"], arguments).rowcount:
            pass
