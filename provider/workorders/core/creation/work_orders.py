"""`create_for`: creates the work orders of every trigger, in chunks: Postgres stores one while the next one is read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import compress, islice, starmap
from operator import add
from typing import Final

import psycopg

from workorders.core.admission import limits
from workorders.core.admission.pipeline import AdmissionPipeline
from workorders.core.admission.rules import Chunk, Rule
from workorders.core.exceptions import DuplicateItemsError
from workorders.core.ids import increasing_ids
from workorders.core.items import Item, Rejection
from workorders.core.postgres import binary_rows
from workorders.core.postgres.connection import VALUE_ERRORS, Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import Selector
from workorders.core.triggers import Trigger, stream_id

_QUERIES = load_queries("workorders.core.creation", "sql/work_orders.sql")

CHUNK_ITEMS = 10_000
"""Items written under one savepoint. Postgres caches 64 savepoints of a transaction, which is enough for 640,000
messages or 512 MiB of one partition. Beyond that, every reader of the tables is slower until the transaction ends."""
CHUNK_BYTES = 8 * 1024 * 1024
"""Bytes of bodies, requests, and raw values in one chunk; two chunks are in memory."""
_PORTION_ITEMS: Final = 500
_PARTS: Final = 2
"""A chunk is written by two statements, and at the end of each there is a wait for Postgres."""

_ACCEPTED_STATE = "pending"
_REJECTED_STATE = "rejected"


@dataclass(frozen=True, slots=True)
class Created:
    """How many items had which result."""

    created: int = 0
    """Work orders with an input."""
    rejected: int = 0
    """Work orders that contain the reason why their event cannot be an input."""
    existing: int = 0
    """Items whose source key had a work order before; they changed nothing."""
    rejected_by_rule: int = 0
    """Of the rejected: those with an input, which a rule of the trigger or a limit of the workflow rejected."""
    ignored: int = 0
    """Items that left no work order, because another one has their idempotency key."""
    filtered: int = 0
    """Events that the source left out by the trigger's filter, and that never were items."""

    def __add__(self, other: "Created") -> "Created":
        return Created(*map(add, astuple(self), astuple(other)))


def create_for(
    connection: Connection,
    trigger: Trigger,
    items: Iterable[Item],
    *,
    fresh: bool = False,
    ids: Iterator[bytes] | None = None,
    prove: Callable[[], None] | None = None,
    rules: Sequence[Rule] = (),
) -> Created:
    """Create a work order for each item, inside the caller's transaction.

    Items are read in chunks, so memory stays flat for one item or a hundred thousand. The caller commits. A work order
    exists with its dataclip or its rejection, or not at all.

    Args:
        connection: where the caller's transaction is, or begins.
        trigger: what the work orders belong to.
        items: in the order of their source. They are read once, and the next ones while Postgres stores the current
            ones, so their iterator must not use `connection`.
        fresh: the caller knows, under its own lock, that no item has a work order yet. The rows are then copied
            directly into the tables. The unique source key still protects them.
        ids: the ids of the work orders, each greater than the one before; new ones if omitted.
        prove: called once after the last item is written. It may wait for a network, because no lock that another
            trigger, partition, or caller needs is taken before it returns. What it raises ends the call.
        rules: more rules than those of the trigger, for this call alone.

    Returns:
        The counts, which add up to the number of items.

    Raises:
        DuplicateItemsError: `fresh` was given, and a source key has a work order. The caller must roll back.
        LimitReachedError: the workflow has too little capacity; the caller must roll back, and its source must wait.
        psycopg.Error: the database failed. No item is the cause, because one that Postgres cannot store is rejected.
    """
    if fresh:  # the items of a replay may need no capacity, because their work orders exist
        limits.require_capacity(connection, trigger)
    pipeline = AdmissionPipeline.of(connection, trigger, rules)
    chunks = Chunks(items, CHUNK_ITEMS, CHUNK_BYTES)
    writer = _Writer(connection, trigger, pipeline, chunks.prefetch, fresh)
    ids = increasing_ids() if ids is None else ids
    total = Created()
    for chunk in chunks:
        total += writer.write(list(islice(ids, len(chunk))), chunk)
    # Before `decide`, which locks what all triggers of the workflow share, so that a slow network holds no such lock.
    if prove is not None:
        prove()
    if pipeline is not None:
        rejected, ignored = pipeline.decide()
        total += Created(
            created=-rejected - ignored.with_input,
            rejected=rejected - ignored.rejected,
            rejected_by_rule=rejected,
            ignored=sum(ignored),
        )
    return total


class Chunks:
    """The items of a source, in order and in chunks of a bounded size.

    At most one chunk is held in addition to the one being written.
    """

    def __init__(self, items: Iterable[Item], max_items: int, max_bytes: int) -> None:
        """Take items from a source, which is consumed once; the item that reaches `max_bytes` ends its chunk."""
        self._items = iter(items)
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._chunk: list[Item] = []
        self._held_bytes = 0
        self._ended = False
        self._failure: Exception | None = None

    def __iter__(self) -> Iterator[list[Item]]:
        while chunk := self._take():
            yield chunk

    def prefetch(self) -> Iterator[None]:
        """Read a part of the next chunk in small steps, and stop when it is full.

        What the source raises is raised with the next chunk, because the current one is not at fault.
        """
        for _ in range(0, self._max_items // _PARTS, _PORTION_ITEMS):
            if self._is_full:
                return
            self._read(_PORTION_ITEMS)
            yield

    def _take(self) -> list[Item]:
        while not self._is_full:
            self._read(self._max_items)
        if self._failure is not None:
            raise self._failure
        chunk, self._chunk, self._held_bytes = self._chunk, [], 0
        return chunk

    @property
    def _is_full(self) -> bool:
        return self._ended or len(self._chunk) >= self._max_items or self._held_bytes >= self._max_bytes

    def _read(self, limit: int) -> None:
        chunk, held, max_bytes = self._chunk, self._held_bytes, self._max_bytes
        end = min(len(chunk) + limit, self._max_items)
        try:
            for item in islice(self._items, end - len(chunk)):
                chunk.append(item)
                _, _, request, body, _, raw = item  # takes a third of the time of attribute access
                held += len(request) + len(body or b"") + len(raw or b"")
                if held >= max_bytes:
                    break
            else:
                self._ended = len(chunk) < end
        except Exception as failure:  # noqa: BLE001 - raised again by the next call of `_take`
            self._failure, self._ended = failure, True
        self._held_bytes = held


@dataclass
class _Writer:
    """Writes the chunks of one call of `create_for`."""

    connection: Connection
    trigger: Trigger
    pipeline: AdmissionPipeline | None
    prefetch: Callable[[], Iterator[None]]
    fresh: bool

    def __post_init__(self) -> None:
        self.stream_ids: dict[str | None, int | None] = {}
        selector = self.trigger.ordering_key
        self.key_of: Callable[[Item], int | None] = (
            Selector.parse(selector).ordering_key if selector else lambda _item: None
        )
        # The end of the rows of each stream: of accepted ones, and of rejected ones.
        self.tails: tuple[dict[str | None, bytes], dict[str | None, bytes]] = ({}, {})

    def write(self, ids: list[bytes], items: list[Item]) -> Created:
        """Write a chunk. If Postgres rejects a value in it, halve it until the item with that value is alone."""
        for stream in {item.stream for item in items}:
            self._know_stream(stream)
        chunk = Chunk(ids, items)
        try:
            with self.connection.transaction():
                created = self._write_once(chunk)
        except psycopg.errors.UniqueViolation as error:
            raise DuplicateItemsError(
                f"Trigger {self.trigger.name} announced new events, but one of them has a work order "
                f"({error.diag.message_detail}); nothing was created."
            ) from error
        except VALUE_ERRORS as error:
            if len(items) > 1:
                middle = len(items) // 2
                return self.write(ids[:middle], items[:middle]) + self.write(ids[middle:], items[middle:])
            if items[0].rejection is not None:  # it was written without its body, so the value is not the cause
                raise
            rejected = items[0]._replace(body=None, rejection=rejection_of(error), raw=items[0].body)
            return self.write(ids, [rejected])
        if self.pipeline is not None:
            self.pipeline.add(chunk)
        return created

    def _write_once(self, chunk: Chunk) -> Created:
        pairs = iter(chunk)
        given = len(chunk.ids)
        if self.fresh:
            self._copy_work_orders(self._observed(chunk))
        else:
            self._insert_missing(chunk)
            pairs = self._observed(chunk)
        dataclip = binary_rows.dataclip
        accepted = (dataclip(id_, body, request) for id_, (_, _, request, body, _, _) in pairs if body is not None)
        binary_rows.copy(self.connection, "dataclips", binary_rows.DATACLIP_COLUMNS, accepted, self.prefetch())
        rejected = [(id_, item) for id_, item in chunk if item.body is None]
        binary_rows.copy(self.connection, "rejections", binary_rows.REJECTION_COLUMNS, starmap(_rejection, rejected))
        count = len(chunk.ids)
        return Created(count - len(rejected), len(rejected), existing=given - count)

    def _observed(self, chunk: Chunk) -> Iterator[tuple[bytes, Item]]:
        return iter(chunk) if self.pipeline is None else self.pipeline.observe(chunk, self.stream_ids)

    def _copy_work_orders(self, keyed: Iterable[tuple[bytes, Item]]) -> None:
        tails, key_of, work_order, bigint = self.tails, self.key_of, binary_rows.work_order, binary_rows.bigint
        rows = (
            work_order(id_, item.position, tails[item.body is None][item.stream]) + bigint(key_of(item))
            for id_, item in keyed
        )
        binary_rows.copy(self.connection, "work_orders", binary_rows.WORK_ORDER_COLUMNS, rows, self.prefetch())

    def _insert_missing(self, chunk: Chunk) -> None:
        """Insert the work orders that are missing, and leave only these in the chunk."""
        cursor = self.connection.execute(
            _QUERIES["insert_missing"],
            {
                "trigger_id": self.trigger.id,
                "workflow_id": self.trigger.workflow_id,
                "ids": [id_.hex() for id_ in chunk.ids],
                "positions": [item.position for item in chunk.items],
                "stream_ids": [self.stream_ids[item.stream] for item in chunk.items],
                "states": [_REJECTED_STATE if item.body is None else _ACCEPTED_STATE for item in chunk.items],
                "ordering_keys": list(map(self.key_of, chunk.items)),
            },
        )
        created = {row[0].bytes for row in cursor}
        missing = [id_ in created for id_ in chunk.ids]
        chunk.ids, chunk.items = list(compress(chunk.ids, missing)), list(compress(chunk.items, missing))

    def _know_stream(self, stream: str | None) -> None:
        if stream in self.stream_ids:
            return
        number = None if stream is None else stream_id(self.connection, self.trigger, stream)
        self.stream_ids[stream] = number
        for tails, state in zip(self.tails, (_ACCEPTED_STATE, _REJECTED_STATE), strict=True):
            tails[stream] = binary_rows.work_order_suffix(self.trigger.id, self.trigger.workflow_id, number, state)


def rejection_of(error: psycopg.Error) -> Rejection:
    """Return why an item is rejected whose value Postgres cannot store."""
    return Rejection("refused-by-postgres", f"Postgres cannot store it: {error.diag.message_primary}")


def _rejection(id_: bytes, item: Item) -> bytes:
    reason = item.rejection or Rejection("no-input", "the source gave neither an input nor a reason")
    return binary_rows.rejection(id_, reason.code, reason.detail, item.request, item.raw)
