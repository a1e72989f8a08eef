"""The store of idempotency keys: which work order has a key, until when.

The time is the database's, when a work order is created, and not the event's. So the window always covers its whole
length, in every order of arrival. A window over the events' own times would have to extend in both directions, would
trust the producers' clocks, and would not know when a key expires.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final
from uuid import UUID

import psycopg

from workorders.core.admission_rules import IdempotencySettings
from workorders.core.items import Item
from workorders.core.postgres import binary_rows
from workorders.core.postgres.arrays import integers, uuids
from workorders.core.postgres.binary_rows import ID_OF, KEY_OF, SOURCE_OF
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.copy import copy
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import hash128

_QUERIES = load_queries("workorders.core.admission", "sql/idempotency.sql")

_KEYS_A_STEP: Final = 100_000
"""Keys that are acquired by one statement; see `CHUNK_ITEMS` for why there are not more savepoints."""
_WORTH_COPYING: Final = 50
"""From this number of keys on, a lookup and a copy of the free ones are faster than one upsert."""


def acquire(
    connection: Connection, trigger_id: int, window_seconds: float | None, keyed: list[bytes]
) -> list[tuple[bytes, bytes]]:
    """Give each key to the first work order that has it; return the rows of the others, each with the key's holder.

    The keys are acquired in their own order instead of that of the events, so two transactions that share
    several keys never wait for each other. A transaction calls this once per rule, with all keys it has: what
    `binary_rows.keyed` returns for each work order that was written, sorted here. None is a window without end.
    """
    keyed.sort()
    first, repeats = _by_key(keyed)
    held: dict[bytes, bytes] = {}
    for place in range(0, len(first), _KEYS_A_STEP):
        held |= _acquire_step(connection, trigger_id, window_seconds, first[place : place + _KEYS_A_STEP])
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


def _acquire_step(
    connection: Connection, trigger_id: int, window_seconds: float | None, rows: Sequence[bytes]
) -> dict[bytes, bytes]:
    """Acquire the keys that are free, and return the holders of the others."""
    if len(rows) >= _WORTH_COPYING:
        held = _lookup_holders(connection, trigger_id, rows)
        if held is not None and _copy_free(connection, trigger_id, window_seconds, rows, held):
            return held
    arguments = {
        "trigger_id": trigger_id,
        "window_seconds": window_seconds,
        "keys": uuids(row[KEY_OF] for row in rows),
        "ids": uuids(row[ID_OF] for row in rows),
        "positions": integers(position for position, _ in binary_rows.sources(rows)),
        "stream_ids": integers(stream_id for _, stream_id in binary_rows.sources(rows)),
    }
    # With RETURNING, the statement would nearly always send all its arguments back.
    if connection.execute(_QUERIES["acquire"], arguments).rowcount == len(rows):
        return {}
    ids = {row[KEY_OF]: row[ID_OF] for row in rows}
    holders = {key.bytes: holder.bytes for key, holder, *_ in connection.execute(_QUERIES["known"], arguments)}
    return {key: holder for key, holder in holders.items() if holder != ids[key]}


def _lookup_holders(connection: Connection, trigger_id: int, rows: Sequence[bytes]) -> dict[bytes, bytes] | None:
    """Return the holders of the keys that are not free; None if a row has expired or is restored."""
    arguments = {"trigger_id": trigger_id, "keys": uuids(row[KEY_OF] for row in rows)}
    held: dict[bytes, bytes] = {}
    sources: dict[bytes, bytes] = {}
    for key, holder, position, stream_id, is_valid in connection.execute(_QUERIES["known"], arguments):
        if not is_valid:
            return None
        held[key.bytes] = holder.bytes
        if position is not None:
            sources[key.bytes] = binary_rows.source(position, stream_id)
    if sources and any(sources.get(row[KEY_OF]) == row[SOURCE_OF] for row in rows):
        return None
    return held


def _copy_free(
    connection: Connection,
    trigger_id: int,
    window_seconds: float | None,
    rows: Iterable[bytes],
    held: dict[bytes, bytes],
) -> bool:
    """Copy the free keys, in half the time of an upsert; return False if another transaction acquired one meanwhile.

    If another transaction is acquiring a key, this waits for it. After a conflict nothing is kept, so the caller can
    acquire all keys in their order from the beginning.
    """
    (expires_at,) = fetch_row(connection, _QUERIES["expiry"], {"window_seconds": window_seconds})
    tail = binary_rows.key_row_suffix(trigger_id, expires_at)
    free = (row + tail for row in rows if row[KEY_OF] not in held)
    try:
        with connection.transaction():
            copy(connection, "idempotency_keys", binary_rows.KEYED_COLUMNS, free)
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


def release(connection: Connection, trigger_id: int, ids: Collection[bytes], keyed: Iterable[bytes]) -> None:
    """Release the keys that these work orders acquired."""
    keys = [row[KEY_OF].hex() for row in keyed if row[ID_OF] in ids] if ids else []
    if keys:
        arguments = {"trigger_id": trigger_id, "keys": keys, "ids": [id_.hex() for id_ in ids]}
        connection.execute(_QUERIES["release"], arguments)


def expire(connection: Connection, limit: int) -> int:
    """Delete at most `limit` expired keys in the caller's transaction; return how many.

    It reads the index on the expiry and skips locked rows, so it waits for no other transaction.
    """
    return connection.execute(_QUERIES["expire"], {"limit": limit}).rowcount
