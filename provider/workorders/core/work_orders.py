"""`create_for`: the only way any work order is made, whatever its trigger."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, starmap

import psycopg

from workorders.core import deletions, limits, rows
from workorders.core.admission import Admission
from workorders.core.copying import copy
from workorders.core.database import Connection
from workorders.core.exceptions import DuplicateItemsError
from workorders.core.ids import increasing_ids
from workorders.core.items import Item, Rejection
from workorders.core.queries import load_queries
from workorders.core.selectors import Selector
from workorders.core.triggers import Trigger, stream_id

_QUERIES = load_queries("workorders.core", "sql/work_orders.sql")

CHUNK_ITEMS = 20_000
"""Items written under one savepoint: fewer would overflow Postgres's cache of 64 subtransactions in a large batch."""
CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes of bodies, requests and raw values held in memory before they are written."""

_ACCEPTED_STATE = "pending"
_REJECTED_STATE = "rejected"

# What Postgres says of a value that it cannot hold: class 22 and the limits of class 54, such as too deep a nesting.
_VALUE_ERRORS = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)


@dataclass(frozen=True, slots=True)
class Created:
    """How many items became what."""

    created: int = 0
    """Work orders with an input."""
    rejected: int = 0
    """Work orders that say why their event cannot be an input."""
    already_there: int = 0
    """Items whose source key had a work order before; they changed nothing."""
    turned_away: int = 0
    """Of the rejected: those with an input, which a rule of the trigger or a limit of the workflow refused."""

    def __add__(self, other: "Created") -> "Created":
        """Add field by field."""
        return Created(
            self.created + other.created,
            self.rejected + other.rejected,
            self.already_there + other.already_there,
            self.turned_away + other.turned_away,
        )


def create_for(
    connection: Connection,
    trigger: Trigger,
    items: Iterable[Item],
    *,
    fresh: bool = False,
    ids: Iterator[bytes] | None = None,
) -> Created:
    """Create a work order for each item, inside the caller's transaction.

    One item or a hundred thousand: they are taken in chunks, so memory stays flat. The caller commits; a work order
    exists with its dataclip or its rejection, or not at all.

    Args:
        connection: where the caller's transaction is, or begins.
        trigger: what the work orders belong to.
        items: in the order of their source; consumed once.
        fresh: the caller knows, under a lock of its own, that no item has a work order yet. The rows are then copied
            straight into the tables. The unique source key still guards them.
        ids: what the work orders are named by, each greater than the one before; new ones when omitted.

    Returns:
        The counts, which add up to the number of items.

    Raises:
        DuplicateItemsError: `fresh` was promised and a source key was there already. The transaction is broken then
            and the caller must roll it back.
        HardLimitError: the workflow takes less now; the caller must roll back, and its source wait.
        psycopg.Error: the database failed; no item is to blame, for an item that Postgres cannot store is rejected.
    """
    limits.require_room(connection, trigger)
    admission = None if trigger.rules is None else Admission(connection, trigger, trigger.rules)
    writer = _Writer(connection, trigger, admission, fresh=fresh, ids=ids or increasing_ids())
    total = Created()
    for chunk in _chunks(items):
        total += writer.write(chunk)
    if admission is not None:
        refused, sifted = admission.settle()
        total += Created(created=-refused, rejected=refused, turned_away=refused + sifted)
    return total


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := _take(iterator):
        yield chunk


def _take(iterator: Iterator[Item]) -> list[Item]:
    chunk: list[Item] = []
    held = 0
    for item in islice(iterator, CHUNK_ITEMS):
        chunk.append(item)
        held += len(item.request) + len(item.body or b"") + len(item.raw or b"")
        if held >= CHUNK_BYTES:
            break
    return chunk


class _Writer:
    """Writes chunks of one call of `create_for`."""

    def __init__(
        self,
        connection: Connection,
        trigger: Trigger,
        admission: Admission | None,
        *,
        fresh: bool,
        ids: Iterator[bytes],
    ) -> None:
        self._connection = connection
        self._trigger = trigger
        self._admission = admission
        self._fresh = fresh
        self._lane = Selector.parse(trigger.lane) if trigger.lane else None
        self._ids = ids
        self._stream_ids: dict[str | None, int | None] = {None: None}
        self._tails: dict[tuple[str | None, str], bytes] = {}

    def write(self, chunk: Sequence[Item]) -> Created:
        """Write the chunk; halve it as long as Postgres refuses a value in it, until the culprit stands alone."""
        for stream in {item.stream for item in chunk}:
            self._know_stream(stream)
        try:
            with self._connection.transaction():
                return self._write_once(chunk)
        except psycopg.errors.UniqueViolation as error:
            raise DuplicateItemsError(
                f"Trigger {self._trigger.name} announced new events, but a work order for one of them is there already "
                f"({error.diag.message_detail}); nothing was created."
            ) from error
        except _VALUE_ERRORS as error:
            if len(chunk) == 1:
                return self._write_refused(chunk[0], error)
            middle = len(chunk) // 2
            return self.write(chunk[:middle]) + self.write(chunk[middle:])

    def _write_refused(self, item: Item, error: psycopg.Error) -> Created:
        if item.rejection is not None:  # it was written without its body already, so the value is not at fault
            raise error
        rejection = Rejection("refused-by-postgres", f"Postgres cannot store it: {error.diag.message_primary}")
        return self.write([item._replace(body=None, rejection=rejection, raw=item.body)])

    def _write_once(self, chunk: Sequence[Item]) -> Created:
        keyed = list(zip(self._ids, chunk, strict=False))
        passing: Iterable[tuple[bytes, Item]]
        if self._fresh:
            written = passing = self._copy_work_orders(keyed)
        else:
            written = passing = self._insert_missing(keyed)
            if self._admission is not None:
                passing = self._admission.watch(written, self._stream_ids)
        rejected = [(id_, item) for id_, item in written if item.body is None]
        accepted = (rows.dataclip(id_, item.body, item.request) for id_, item in passing if item.body is not None)
        copy(self._connection, "dataclips", rows.DATACLIP_COLUMNS, accepted)
        copy(self._connection, "rejections", rows.REJECTION_COLUMNS, starmap(_rejection, rejected))
        if self._admission is not None:
            self._admission.keep()
        return Created(len(written) - len(rejected), len(rejected), len(chunk) - len(written))

    def _copy_work_orders(self, keyed: list[tuple[bytes, Item]]) -> list[tuple[bytes, Item]]:
        if self._admission is None:
            self._copy_rows(keyed)
            return keyed
        written: list[tuple[bytes, Item]] = []
        self._copy_rows(_gathered(self._admission.watch(keyed, self._stream_ids, sift=True), written))
        return written

    def _copy_rows(self, keyed: Iterable[tuple[bytes, Item]]) -> None:
        tail = self._tail
        if self._lane is None:
            work_order = rows.work_order
            encoded = (work_order(id_, item.position, tail(item)) for id_, item in keyed)
            copy(self._connection, "work_orders", rows.WORK_ORDER_COLUMNS, encoded)
        else:
            laned, lane_of = rows.laned_work_order, self._lane.lane
            encoded = (laned(id_, item.position, tail(item), lane_of(item)) for id_, item in keyed)
            copy(self._connection, "work_orders", rows.LANED_WORK_ORDER_COLUMNS, encoded)

    def _insert_missing(self, keyed: list[tuple[bytes, Item]]) -> list[tuple[bytes, Item]]:
        cursor = self._connection.execute(
            _QUERIES["insert_missing"],
            {
                "trigger_id": self._trigger.id,
                "workflow_id": self._trigger.workflow_id,
                "ids": [id_.hex() for id_, _ in keyed],
                "positions": [item.position for _, item in keyed],
                "stream_ids": [self._stream_ids[item.stream] for _, item in keyed],
                "states": [_state(item) for _, item in keyed],
                "lanes": [self._lane.lane(item) if self._lane else None for _, item in keyed],
            },
        )
        created = {row[0].bytes for row in cursor}
        return [(id_, item) for id_, item in keyed if id_ in created]

    def _know_stream(self, stream: str | None) -> None:
        if stream not in self._stream_ids and stream is not None:
            self._stream_ids[stream] = number = stream_id(self._connection, self._trigger, stream)
            if not self._fresh:
                deletions.lock_out(self._connection, number)

    def _tail(self, item: Item) -> bytes:
        key = (item.stream, _ACCEPTED_STATE if item.body is not None else _REJECTED_STATE)
        tail = self._tails.get(key)
        if tail is None:
            tail = rows.work_order_tail(
                self._trigger.id, self._trigger.workflow_id, self._stream_ids[item.stream], key[1]
            )
            self._tails[key] = tail
        return tail


def _gathered(passing: Iterable[tuple[bytes, Item]], into: list[tuple[bytes, Item]]) -> Iterator[tuple[bytes, Item]]:
    for pair in passing:
        into.append(pair)
        yield pair


def _rejection(id_: bytes, item: Item) -> bytes:
    reason = item.rejection or Rejection("no-input", "the source gave neither an input nor a reason")
    return rows.rejection(id_, reason.code, reason.detail, item.request, item.raw)


def _state(item: Item) -> str:
    return _ACCEPTED_STATE if item.body is not None else _REJECTED_STATE
