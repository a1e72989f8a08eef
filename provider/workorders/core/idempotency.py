"""Idempotency keys: of the events with one key, one becomes a run within the window.

The time that counts is the database's, when a work order is created, and not the event's own. So the window always
looks back in full, whatever the order in which events arrive: a look-back by the events' times has to look both ways,
trusts the producers' clocks, and can never say when a key is done with.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from workorders.core.arrays import integers, uuids
from workorders.core.database import Connection
from workorders.core.queries import load_queries
from workorders.core.sequencing import DUPLICATE
from workorders.core.turned_away import TurnedAway

_QUERIES = load_queries("workorders.core", "sql/idempotency.sql")

_KEYS_A_STATEMENT: Final = 20_000
_EXPIRED_BESIDE: Final = 100
"""Expired keys that every call may delete, beside two for each key that it added."""


class Keyed(NamedTuple):
    """A written work order with its key; in the order of keys, then of ids, which is that of the source."""

    key: bytes
    id: bytes
    stream_id: int | None
    position: int | None


def take(connection: Connection, trigger_id: int, window_seconds: float, keyed: list[Keyed]) -> list[TurnedAway]:
    """Give each key to the first work order that has it, and return the others as duplicates.

    The keys are taken in their own order, whatever that of the events is, so that two transactions that share several
    wait for one another and never in a circle. The caller asks for this once in its transaction, with all it has.
    """
    keyed.sort()
    first: list[Keyed] = []
    repeats: list[tuple[Keyed, Keyed]] = []
    for part in keyed:
        if first and first[-1].key == part.key:
            repeats.append((part, first[-1]))
        else:
            first.append(part)
    taken_before: dict[bytes, bytes] = {}
    for some in _slices(first):
        taken_before |= _taken_before(connection, trigger_id, window_seconds, some)
    refused = [_duplicate(part, taken_before.get(part.key, original.id)) for part, original in repeats]
    if taken_before:
        refused += [_duplicate(part, taken_before[part.key]) for part in first if part.key in taken_before]
    return refused


def _duplicate(part: Keyed, holder: bytes) -> TurnedAway:
    return TurnedAway(part.id, DUPLICATE, f"duplicate of {_spelled(holder)}", holder)


def _taken_before(
    connection: Connection, trigger_id: int, window_seconds: float, some: Sequence[Keyed]
) -> dict[bytes, bytes]:
    arguments = {
        "trigger_id": trigger_id,
        "window_seconds": window_seconds,
        "keys": uuids(part.key for part in some),
        "ids": uuids(part.id for part in some),
        "stream_ids": integers(part.stream_id for part in some),
        "positions": integers(part.position for part in some),
    }
    # Asked for the rows it made, the statement would send back what nearly always is all that it was given.
    if connection.execute(_QUERIES["take"], arguments).rowcount == len(some):
        return {}
    rows = connection.execute(_QUERIES["holders"], arguments)
    return {key.bytes: holder.bytes for key, holder in rows}


def give_back(connection: Connection, trigger_id: int, ids: Sequence[bytes], keyed: Sequence[Keyed]) -> None:
    """Free the keys of work orders that were turned away after all."""
    refused = set(ids)
    keys = [part.key.hex() for part in keyed if part.id in refused]
    if keys:
        arguments = {"trigger_id": trigger_id, "keys": keys, "ids": [id_.hex() for id_ in refused]}
        connection.execute(_QUERIES["give_back"], arguments)


def expire(connection: Connection, limit: int) -> int:
    """Delete keys whose window is over, at most `limit`, in the caller's transaction; return how many.

    It reads the index of the times and no table, and passes over keys that somebody holds, so it waits for nobody.
    """
    return connection.execute(_QUERIES["expire"], {"limit": limit}).rowcount


def expire_beside(connection: Connection, added: int) -> None:
    """Delete more keys than were added, if so many are over: the table stays as large as the window needs."""
    expire(connection, 2 * added + _EXPIRED_BESIDE)


def _slices(parts: list[Keyed]) -> Iterator[Sequence[Keyed]]:
    iterator = iter(parts)
    while some := list(islice(iterator, _KEYS_A_STATEMENT)):
        yield some


def _spelled(id_: bytes) -> str:
    text = id_.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
