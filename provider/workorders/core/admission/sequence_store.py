"""Sequences in the database: a high-water mark per key, and the work orders that are parked above a gap."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from workorders.core.admission.sequence_order import Decision, Entry, Numbered, SequenceState
from workorders.core.postgres.arrays import integers, uuids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/sequence_store.sql")


def lock(
    connection: Connection, trigger_id: int, names: Mapping[bytes, str], start: int | None, entries: Sequence[Entry]
) -> dict[bytes, SequenceState]:
    """Lock the sequence of every key, in the order of the keys, and return their states; a new key begins now.

    A transaction calls this once, with the keys and the text that people know each by. Of the parked work orders, those
    are read that matter for the entries. A new key starts at `start`, or at the first number to arrive if that is None.
    """
    keys = sorted(names)
    arguments = {"trigger_id": trigger_id, "keys": uuids(keys)}
    marks: dict[bytes, tuple[int | None, int]] = {}
    # An operator may drop a sequence between the two statements; its key then begins again.
    while len(marks) < len(keys):
        new = {"names": [names[key] for key in keys], "mark": None if start is None else start - 1}
        connection.execute(_QUERIES["begin"], arguments | new)
        marks = lock_high_water_marks(connection, trigger_id, keys)
    sequences = {key: SequenceState(mark) for key, (mark, _) in marks.items()}
    for key, begin, end in connection.execute(_QUERIES["given_up"], arguments):
        state = sequences[key.bytes]
        state.skipped = (*state.skipped, (begin, end))
    with_parked = {key for key, (_, parked) in marks.items() if parked}
    if with_parked:
        _fetch_parked(connection, trigger_id, sequences, [entry for entry in entries if entry.sequence in with_parked])
    return sequences


def lock_high_water_marks(
    connection: Connection, trigger_id: int, keys: Sequence[bytes]
) -> dict[bytes, tuple[int | None, int]]:
    """Lock the sequences of these keys in their order; return the high-water mark and the parked count of each."""
    arguments = {"trigger_id": trigger_id, "keys": uuids(keys)}
    return {key.bytes: (mark, parked) for key, mark, parked in connection.execute(_QUERIES["lock"], arguments)}


def _fetch_parked(
    connection: Connection, trigger_id: int, sequences: Mapping[bytes, SequenceState], entries: Iterable[Entry]
) -> None:
    """Read what is parked under a number that came again, and all of a key whose gap may close now.

    A key without a high-water mark has nothing parked. One whose next number is not among the entries releases none.
    """
    closing: set[bytes] = set()
    same: list[tuple[bytes, int]] = []
    for entry in entries:
        if entry.sequence is None or entry.number is None:
            continue
        mark = sequences[entry.sequence].high_water_mark
        if mark is not None and entry.number == mark + 1:
            closing.add(entry.sequence)
        same.append((entry.sequence, entry.number))
    arguments = {
        "trigger_id": trigger_id,
        "closing": uuids(closing),
        "keys": uuids(key for key, _ in same),
        "numbers": integers(number for _, number in same),
    }
    for key, number, id_ in connection.execute(_QUERIES["parked"], arguments):
        sequences[key.bytes].parked[number] = id_.bytes


def write(
    connection: Connection, trigger: Trigger, decision: Decision, sequences: Mapping[bytes, SequenceState]
) -> None:
    """Write what is parked, what is released, and the high-water marks."""
    if decision.parked:  # these wait for no run
        connection.execute(_QUERIES["park"], {"trigger_id": trigger.id} | _columns(decision.parked))
    write_released(connection, trigger.id, decision.released)
    write_order_overrides(connection, trigger, decision.admitted_in_order)
    moved = {part.sequence for part in decision.admitted_in_order}
    write_high_water_marks(
        connection,
        trigger.id,
        {key: sequences[key].high_water_mark for key in moved},
        Counter(part.sequence for part in decision.parked),
        Counter(part.sequence for part in decision.released),
    )


def write_released(connection: Connection, trigger_id: int, released: Sequence[Numbered]) -> None:
    """Release parked work orders, so that they wait for a run."""
    if released:
        connection.execute(_QUERIES["release"], {"trigger_id": trigger_id} | _columns(released))


def write_order_overrides(connection: Connection, trigger: Trigger, admitted: Sequence[Numbered]) -> None:
    """Keep the order of a sequence within an ordering key, where it differs from the order of arrival.

    Where the workflow has no ordering keys, runs have no order. The numbers of one key ascend.
    """
    if trigger.ordering_key is None or not admitted:
        return
    newest: dict[bytes, bytes] = {}
    disordered = set()
    for part in admitted:
        if part.id < newest.get(part.sequence, b""):
            disordered.add(part.sequence)
        newest[part.sequence] = part.id
    arguments = {
        "trigger_id": trigger.id,
        "workflow_id": trigger.workflow_id,
        "disordered": [part.sequence in disordered for part in admitted],
    }
    keys = {"given_keys": uuids(newest)}
    connection.execute(_QUERIES["forget_places"], {"trigger_id": trigger.id} | keys)
    connection.execute(_QUERIES["place"], arguments | keys | _columns(admitted))


def write_high_water_marks(
    connection: Connection,
    trigger_id: int,
    marks: Mapping[bytes, int | None],
    parked: Mapping[bytes, int],
    released: Mapping[bytes, int],
) -> None:
    """Move high-water marks up, and update the counts of parked work orders."""
    keys = sorted({*marks, *parked, *released})
    if keys:
        connection.execute(
            _QUERIES["move"],
            {
                "trigger_id": trigger_id,
                "keys": uuids(keys),
                "marks": integers(marks.get(key) for key in keys),
                "more": [parked.get(key, 0) - released.get(key, 0) for key in keys],
                "moved": [key in released for key in keys],
            },
        )


def _columns(parts: Collection[Numbered]) -> dict[str, str]:
    return {
        "ids": uuids(part.id for part in parts),
        "keys": uuids(part.sequence for part in parts),
        "numbers": integers(part.number for part in parts),
    }
