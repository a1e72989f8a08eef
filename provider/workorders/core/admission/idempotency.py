"""The rule of idempotency keys, and their store: which work order has a key, until when.

The time is the database's, when a work order is created, and not the event's. So the window always covers its whole
length, in every order of arrival. A window over the events' own times would have to extend in both directions, would
trust the producers' clocks, and would not know when a key expires.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple
from uuid import UUID

from workorders.core.admission import duplicates
from workorders.core.admission.duplicates import DUPLICATE, RepeatOf
from workorders.core.admission.rules import AdmissionRejection, AdmissionState, Chunk, Observer, Rule, StreamIds
from workorders.core.items import Item
from workorders.core.postgres.arrays import integers, uuids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import Selector, hash128
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/idempotency.sql")

_KEYS_A_STEP: Final = 100_000
"""Keys that are acquired by one statement."""


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


class Keyed(NamedTuple):
    """A work order with a key; the order is that of the keys, then of the ids."""

    key: bytes
    id: bytes
    position: int | None
    stream_id: int | None


class IdempotencyRule(Rule):
    """Gives each key to one work order, and rejects or ignores the others."""

    reasons: ClassVar = (DUPLICATE,)
    notes: list[Keyed]

    def __init__(self, settings: IdempotencySettings) -> None:
        super().__init__()
        self._settings = settings
        self._keyed: list[Keyed] = []
        self._repeats: list[tuple[Keyed, bytes]] = []

    @classmethod
    def of(cls, trigger: Trigger) -> Iterable["IdempotencyRule"]:
        """Return the rule if the events of the trigger have keys."""
        return map(cls, IdempotencySettings.of(trigger))

    def observe(self, chunk: Chunk, stream_ids: StreamIds) -> Observer:
        """Note the keys."""
        value, of_caller = self._settings.key.value, self._settings.is_of_caller
        note = chunk.notes.setdefault(self, []).append

        def observe(id_: bytes, item: Item) -> None:
            if (item.body is not None or of_caller) and (found := value(item)) is not None:
                note(Keyed(hash128(found), id_, item.position, stream_ids[item.stream]))

        return observe

    def lock(self, state: AdmissionState) -> None:
        """Acquire the keys, and read the holders of those that are not free."""
        passed_over = state.passed_over
        self._keyed = [row for row in self.notes if row.id not in passed_over] if passed_over else self.notes
        self._repeats = _acquire(state, self._settings.window_seconds, self._keyed)
        passed_over.update(row.id for row, _ in self._repeats)

    def decide(self, state: AdmissionState) -> None:
        """Reject or ignore the work orders whose key another one holds."""
        for row, holder in self._repeats:
            if self._settings.ignores(row.position):
                state.ignored.append(RepeatOf(row.id, holder))
            else:
                detail = duplicates.duplicate_of(holder)
                state.rejections.append(AdmissionRejection(row.id, DUPLICATE, detail, holder))

    def write(self, state: AdmissionState) -> None:
        """Release the keys of what another rule rejected, so that it may come again.

        A caller's key names the event itself, so it stays with a rejected work order, and is released only if none is
        left.
        """
        gone = {part.id for part in state.ignored}
        if not self._settings.is_of_caller:
            gone.update(part.id for part in state.rejections if part.id not in state.passed_over)
        keys = [row.key.hex() for row in self._keyed if row.id in gone] if gone else []
        if keys:
            arguments = {"trigger_id": state.trigger.id, "keys": keys, "ids": [id_.hex() for id_ in gone]}
            state.connection.execute(_QUERIES["release"], arguments)

    def clean_up(self, state: AdmissionState) -> None:
        """Delete more expired keys than were added, so that the table stays as large as the windows need."""
        if self._keyed:
            expire(state.connection, 2 * len(self._keyed) + 1)


def _acquire(state: AdmissionState, window_seconds: float | None, keyed: list[Keyed]) -> list[tuple[Keyed, bytes]]:
    """Give each key to the first work order that has it; return the others, each with the key's holder.

    The keys are acquired in their own order instead of that of the events, so two transactions that share several keys
    never wait for each other. A transaction calls this once per rule, with all that was noted, sorted here. None is an
    unlimited window.
    """
    keyed.sort()
    first: dict[bytes, Keyed] = {}
    for row in keyed:
        first.setdefault(row.key, row)
    rows = list(first.values())
    held: dict[bytes, bytes] = {}
    for place in range(0, len(rows), _KEYS_A_STEP):
        held |= _acquire_step(state, window_seconds, rows[place : place + _KEYS_A_STEP])
    if len(first) == len(keyed) and not held:
        return []
    holders = ((row, held.get(row.key, first[row.key].id)) for row in keyed)
    return [(row, holder) for row, holder in holders if holder != row.id]


def _acquire_step(state: AdmissionState, window_seconds: float | None, rows: Sequence[Keyed]) -> dict[bytes, bytes]:
    """Acquire the keys that are free, and return the holders of the others."""
    keys, ids, positions, stream_ids = zip(*rows, strict=True)
    arguments = {
        "trigger_id": state.trigger.id,
        "window_seconds": window_seconds,
        "keys": uuids(keys),
        "ids": uuids(ids),
        "positions": integers(positions),
        "stream_ids": integers(stream_ids),
    }
    # With RETURNING, the statement would nearly always send all its arguments back.
    if state.connection.execute(_QUERIES["acquire"], arguments).rowcount == len(rows):
        return {}
    known = state.connection.execute(_QUERIES["known"], arguments)
    return {key.bytes: holder.bytes for key, holder in known}


def find_holder(connection: Connection, trigger_id: int, settings: IdempotencySettings, item: Item) -> UUID | None:
    """Return the work order that holds the key of an item; None if none does, or the item has no key. Locks nothing."""
    value = None if item.body is None and not settings.is_of_caller else settings.key.value(item)
    if value is None:
        return None
    arguments = {"trigger_id": trigger_id, "key": hash128(value).hex()}
    row = connection.execute(_QUERIES["find_holder"], arguments).fetchone()
    return None if row is None else row[0]


def expire(connection: Connection, limit: int) -> int:
    """Delete at most `limit` expired keys in the caller's transaction; return how many.

    It reads the index on the expiry and skips locked rows, so it waits for no other transaction.
    """
    return connection.execute(_QUERIES["expire"], {"limit": limit}).rowcount
