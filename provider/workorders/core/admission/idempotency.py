"""The rule of idempotency keys, and their store: which work order has a key, until when.

The time is the database's, when a work order is created, and not the event's. So the window always covers its whole
length, in every order of arrival. A window over the events' own times would have to extend in both directions, would
trust the producers' clocks, and would not know when a key expires.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Final, Literal
from uuid import UUID

import psycopg

from workorders.core.admission.duplicates import DUPLICATE, RepeatOf
from workorders.core.admission.rules import AdmissionRejection, AdmissionState, Chunk, Observer, Rule, StreamIds
from workorders.core.items import Item
from workorders.core.postgres import binary_rows
from workorders.core.postgres.arrays import integers, uuids
from workorders.core.postgres.binary_rows import ID_OF, KEY_OF, SOURCE_OF
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import Selector, hash128
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/idempotency.sql")

_KEYS_A_STEP: Final = 100_000
"""Keys that are acquired by one statement; see `CHUNK_ITEMS` for why there are not more savepoints."""
_WORTH_COPYING: Final = 50
"""From this number of keys on, a lookup and a copy of the free ones are faster than one upsert."""


@dataclass(frozen=True, slots=True)
class CallerKey:
    """A text of any length by which a caller names one event. In another scope the same text is another key."""

    scope: str
    text: str

    def value(self, _item: Item) -> bytes:
        """Return the key, in a form that no JSON value has."""
        return b"\0".join((b"caller", self.scope.encode(), self.text.encode("utf-8", "surrogatepass")))


@dataclass(frozen=True, slots=True)
class IdempotencySettings:
    """Of the events with one key, one becomes a work order with a run within the window."""

    key: Selector | CallerKey
    window_seconds: float | None
    """None for a key that never expires."""
    on_duplicate: Literal["reject", "ignore"] = "reject"

    @classmethod
    def of(cls, trigger: Trigger) -> "list[IdempotencySettings]":
        """Return the settings of a trigger; none if its events have no keys."""
        stored = trigger.definition.get("idempotency")
        if stored is None:
            return []
        return [cls(Selector.parse(stored["key"]), float(stored["window"]), stored.get("on_duplicate", "reject"))]

    @property
    def is_of_caller(self) -> bool:
        """Whether the key identifies the event itself, even if the event was rejected."""
        return isinstance(self.key, CallerKey)

    def ignores(self, position: int | None) -> bool:
        """Return whether a repeat with this position leaves no work order.

        A repeat with a position in its source is always kept, because a replay must find it.
        """
        return self.on_duplicate == "ignore" and position is None


class IdempotencyRule(Rule):
    """Gives each key to one work order, and rejects or ignores the others."""

    reasons: ClassVar = (DUPLICATE,)
    notes: list[bytes]
    """What `binary_rows.keyed` returns for each work order with a key."""

    def __init__(self, settings: IdempotencySettings) -> None:
        super().__init__()
        self._settings = settings
        self._keyed: list[bytes] = []

    @classmethod
    def of(cls, trigger: Trigger) -> Iterable["IdempotencyRule"]:
        """Return the rule if the events of the trigger have keys."""
        return map(cls, IdempotencySettings.of(trigger))

    def observe(self, chunk: Chunk, stream_ids: StreamIds) -> Observer:
        """Note the keys."""
        value, keyed = self._settings.key.value, binary_rows.keyed
        note, of_caller = chunk.notes.setdefault(self, []).append, self._settings.is_of_caller

        def observe(id_: bytes, item: Item) -> None:
            if (item.body is not None or of_caller) and (found := value(item)) is not None:
                note(keyed(hash128(found), id_, item.position, stream_ids[item.stream]))

        return observe

    def decide(self, state: AdmissionState) -> None:
        """Acquire the keys, and reject or ignore the work orders whose key another one holds."""
        passed_over = state.passed_over
        self._keyed = [row for row in self.notes if row[ID_OF] not in passed_over] if passed_over else self.notes
        for row, holder in _acquire(state, self._settings.window_seconds, self._keyed):
            passed_over.add(row[ID_OF])
            (position, _), *_ = binary_rows.sources([row])
            if self._settings.ignores(position):
                state.ignored.append(RepeatOf(row[ID_OF], holder))
            else:
                detail = f"duplicate of {UUID(bytes=holder)}"
                state.rejections.append(AdmissionRejection(row[ID_OF], DUPLICATE, detail, holder))

    def write(self, state: AdmissionState) -> None:
        """Release the keys of what another rule rejected, so that it may come again.

        A caller's key names the event itself, so it stays with a rejected work order, and is released only if none is
        left.
        """
        gone = {part.id for part in state.ignored}
        if not self._settings.is_of_caller:
            gone.update(part.id for part in state.rejections if part.id not in state.passed_over)
        keys = [row[KEY_OF].hex() for row in self._keyed if row[ID_OF] in gone] if gone else []
        if keys:
            arguments = {"trigger_id": state.trigger.id, "keys": keys, "ids": uuids(gone)}
            state.connection.execute(_QUERIES["release"], arguments)

    def clean_up(self, state: AdmissionState) -> None:
        """Delete more expired keys than were added, so that the table stays as large as the windows need."""
        if self._keyed:
            expire(state.connection, 2 * len(self._keyed) + 1)


def _acquire(state: AdmissionState, window_seconds: float | None, keyed: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Give each key to the first work order that has it; return the rows of the others, each with the key's holder.

    The keys are acquired in their own order instead of that of the events, so two transactions that share
    several keys never wait for each other. A transaction calls this once per rule, with all keys it has: what
    `binary_rows.keyed` returns for each work order that was written, sorted here. None is an unlimited window.
    """
    keyed.sort()
    first: list[bytes] = []
    repeats: list[tuple[bytes, bytes]] = []
    for _, (original, *others) in groupby(keyed, itemgetter(KEY_OF)):
        first.append(original)
        repeats += [(row, original) for row in others]
    held: dict[bytes, bytes] = {}
    for place in range(0, len(first), _KEYS_A_STEP):
        held |= _acquire_step(state, window_seconds, first[place : place + _KEYS_A_STEP])
    lost = [(row, held.get(row[KEY_OF], original[ID_OF])) for row, original in repeats]
    if held:
        lost += [(row, held[row[KEY_OF]]) for row in first if row[KEY_OF] in held]
    return lost


def _acquire_step(state: AdmissionState, window_seconds: float | None, rows: Sequence[bytes]) -> dict[bytes, bytes]:
    """Acquire the keys that are free, and return the holders of the others."""
    if len(rows) >= _WORTH_COPYING:
        held = _lookup_holders(state, rows)
        if held is not None and _copy_free(state, window_seconds, rows, held):
            return held
    arguments = {
        "trigger_id": state.trigger.id,
        "window_seconds": window_seconds,
        "keys": uuids(row[KEY_OF] for row in rows),
        "ids": uuids(row[ID_OF] for row in rows),
        "positions": integers(position for position, _ in binary_rows.sources(rows)),
        "stream_ids": integers(stream_id for _, stream_id in binary_rows.sources(rows)),
    }
    # With RETURNING, the statement would nearly always send all its arguments back.
    if state.connection.execute(_QUERIES["acquire"], arguments).rowcount == len(rows):
        return {}
    ids = {row[KEY_OF]: row[ID_OF] for row in rows}
    holders = {key.bytes: holder.bytes for key, holder, *_ in state.connection.execute(_QUERIES["known"], arguments)}
    return {key: holder for key, holder in holders.items() if holder != ids[key]}


def _lookup_holders(state: AdmissionState, rows: Sequence[bytes]) -> dict[bytes, bytes] | None:
    """Return the holders of the keys that are not free; None if a row has expired or is restored."""
    arguments = {"trigger_id": state.trigger.id, "keys": uuids(row[KEY_OF] for row in rows)}
    sources = {row[KEY_OF]: row[SOURCE_OF] for row in rows}
    held: dict[bytes, bytes] = {}
    for key, holder, position, stream_id, is_valid in state.connection.execute(_QUERIES["known"], arguments):
        is_same = position is not None and sources[key.bytes] == binary_rows.source(position, stream_id)
        if is_same or not is_valid:
            return None
        held[key.bytes] = holder.bytes
    return held


def _copy_free(
    state: AdmissionState, window_seconds: float | None, rows: Iterable[bytes], held: dict[bytes, bytes]
) -> bool:
    """Copy the free keys, in half the time of an upsert; return False if another transaction acquired one meanwhile.

    If another transaction is acquiring a key, this waits for it. After a conflict nothing is kept, so the caller can
    acquire all keys in their order from the beginning.
    """
    (expires_at,) = fetch_row(state.connection, _QUERIES["expiry"], {"window_seconds": window_seconds})
    tail = binary_rows.key_row_suffix(state.trigger.id, expires_at)
    free = (row + tail for row in rows if row[KEY_OF] not in held)
    try:
        with state.connection.transaction():
            binary_rows.copy(state.connection, "idempotency_keys", binary_rows.KEYED_COLUMNS, free)
    except psycopg.errors.UniqueViolation:
        return False
    return True


def find_holder(connection: Connection, trigger_id: int, settings: IdempotencySettings, item: Item) -> UUID | None:
    """Return the work order that holds the key of an item; None if none does, or the item has no key. Locks nothing."""
    value = None if item.body is None and not settings.is_of_caller else settings.key.value(item)
    if value is None:
        return None
    arguments = {"trigger_id": trigger_id, "keys": uuids([hash128(value)])}
    valid = (holder for _, holder, *_, is_valid in connection.execute(_QUERIES["known"], arguments) if is_valid)
    return next(valid, None)


def expire(connection: Connection, limit: int) -> int:
    """Delete at most `limit` expired keys in the caller's transaction; return how many.

    It reads the index on the expiry and skips locked rows, so it waits for no other transaction.
    """
    return connection.execute(_QUERIES["expire"], {"limit": limit}).rowcount
