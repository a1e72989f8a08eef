"""The rule of idempotency keys, and their store: which work order has a key, until when.

The time is the database's, when a work order is created, and not the event's. So the window always covers its whole
length, in every order of arrival. A window over the events' own times would have to extend in both directions, would
trust the producers' clocks, and would not know when a key expires.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

import psycopg

from workorders.core.admission import duplicates
from workorders.core.admission.duplicates import DUPLICATE, IgnoredRepeat, InlineDuplicate
from workorders.core.admission.rules import AdmissionState, Chunk, Observer, Rule, StreamIds
from workorders.core.admission.sequence_order import AdmissionRejection
from workorders.core.items import Item
from workorders.core.postgres import binary_rows
from workorders.core.postgres.arrays import integers, uuids
from workorders.core.postgres.binary_rows import ID_OF, KEY_OF, SOURCE_OF
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.copy import copy
from workorders.core.postgres.named_queries import load_queries
from workorders.core.rule_settings import IdempotencySettings
from workorders.core.selectors import hash128

_QUERIES = load_queries("workorders.core.admission", "sql/idempotency.sql")

_KEYS_A_STEP: Final = 100_000
"""Keys that are acquired by one statement; see `CHUNK_ITEMS` for why there are not more savepoints."""
_WORTH_COPYING: Final = 50
"""From this number of keys on, a lookup and a copy of the free ones are faster than one upsert."""


class IdempotencyRule(Rule):
    """Gives each key to one work order, and rejects or ignores the others."""

    def __init__(self, settings: IdempotencySettings) -> None:
        self._settings = settings
        self._repeats: list[tuple[bytes, bytes]] = []

    def observe(self, chunk: Chunk, stream_ids: StreamIds, *, unwritten: bool) -> Observer:
        """Note the keys. Of the work orders of an unwritten chunk, return all repeats that are rejected."""
        settings, value, keyed = self._settings, self._settings.key.value, binary_rows.keyed
        note, of_caller = chunk.keys[settings].append, settings.is_of_caller
        seen: dict[bytes, bytes] = {}

        def observe(id_: bytes, item: Item) -> Item | None:
            if (item.body is None and not of_caller) or (found := value(item)) is None:
                return None
            key, position = hash128(found), item.position
            if unwritten and not settings.ignores(position) and (first := seen.setdefault(key, id_)) is not id_:
                chunk.repeats.append(InlineDuplicate(id_, first))
                return duplicates.as_duplicate(item, first)
            note(keyed(key, id_, position, stream_ids[item.stream]))
            return None

        return observe

    def lock(self, state: AdmissionState) -> None:
        """Acquire the keys, and read the holders of those that are not free."""
        rows = state.keys[self._settings]
        if state.duplicates:
            rows = [row for row in rows if row[ID_OF] not in state.duplicates]
        self._repeats = _acquire(state, self._settings.window_seconds, rows)
        state.duplicates.update(row[ID_OF] for row, _ in self._repeats)

    def decide(self, state: AdmissionState) -> None:
        """Reject or ignore the work orders whose key another one holds."""
        for row, holder in self._repeats:
            (position, _), *_ = binary_rows.sources([row])
            if self._settings.ignores(position):
                state.ignored.append(IgnoredRepeat(row[ID_OF], holder))
            else:
                detail = duplicates.duplicate_of(holder)
                state.rejections.append(AdmissionRejection(row[ID_OF], DUPLICATE, detail, holder))

    def write(self, state: AdmissionState) -> None:
        """Record the duplicates, and release the keys of what another rule rejected, so that it may come again.

        A caller's key names the event itself, so it stays with a rejected work order, and is released only if none is
        left.
        """
        gone = {part.id for part in state.ignored}
        if not self._settings.is_of_caller:
            duplicates.record(state.connection, state.repeats, {row[ID_OF]: holder for row, holder in self._repeats})
            gone.update(part.id for part in state.decision.rejected)
        keys = [row[KEY_OF].hex() for row in state.keys[self._settings] if row[ID_OF] in gone] if gone else []
        if keys:
            arguments = {"trigger_id": state.trigger.id, "keys": keys, "ids": [id_.hex() for id_ in gone]}
            state.connection.execute(_QUERIES["release"], arguments)


def _acquire(state: AdmissionState, window_seconds: float | None, keyed: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Give each key to the first work order that has it; return the rows of the others, each with the key's holder.

    The keys are acquired in their own order instead of that of the events, so two transactions that share
    several keys never wait for each other. A transaction calls this once per rule, with all keys it has: what
    `binary_rows.keyed` returns for each work order that was written, sorted here. None is a window without end.
    """
    keyed.sort()
    first, repeats = _by_key(keyed)
    held: dict[bytes, bytes] = {}
    for place in range(0, len(first), _KEYS_A_STEP):
        held |= _acquire_step(state, window_seconds, first[place : place + _KEYS_A_STEP])
    lost = [(row, held.get(row[KEY_OF], original[ID_OF])) for row, original in repeats]
    if held:
        lost += [(row, held[row[KEY_OF]]) for row in first if row[KEY_OF] in held]
    return lost


def _by_key(keyed: Sequence[bytes]) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Return the first row of each key, and the others with the first one of theirs."""
    first: list[bytes] = []
    repeats: list[tuple[bytes, bytes]] = []
    last = None
    for row in keyed:
        key = row[KEY_OF]
        if key == last:
            repeats.append((row, first[-1]))
        else:
            first.append(row)
            last = key
    return first, repeats


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
    held: dict[bytes, bytes] = {}
    sources: dict[bytes, bytes] = {}
    for key, holder, position, stream_id, is_valid in state.connection.execute(_QUERIES["known"], arguments):
        if not is_valid:
            return None
        held[key.bytes] = holder.bytes
        if position is not None:
            sources[key.bytes] = binary_rows.source(position, stream_id)
    if sources and any(sources.get(row[KEY_OF]) == row[SOURCE_OF] for row in rows):
        return None
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
            copy(state.connection, "idempotency_keys", binary_rows.KEYED_COLUMNS, free)
    except psycopg.errors.UniqueViolation:
        return False
    return True


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
