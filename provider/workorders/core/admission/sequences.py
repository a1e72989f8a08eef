"""The rule of sequences: the work orders of one key are admitted by their numbers, without a gap.

A sequence is a high-water mark per key, and the work orders that are parked above a gap. `decide` asks no database, so
that tests can try any order of arrival.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from workorders.core.admission.duplicates import DUPLICATE
from workorders.core.admission.limits import RUN_LIMIT, LimitSettings
from workorders.core.admission.rules import AdmissionRejection, AdmissionState, Chunk, Observer, Rule, StreamIds
from workorders.core.items import Item
from workorders.core.postgres.arrays import integers, uuids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import Selector, hash128
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/sequences.sql")

LATE: Final = "late-in-sequence"
NO_NUMBER: Final = "no-sequence-number"

_MIN_NUMBER: Final = -(2**63)
_MAX_NUMBER: Final = 2**63 - 1
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}")
_MAX_NAME: Final = 200


class Unnumbered(NamedTuple):
    """A work order without a number in a sequence."""

    id: bytes
    sequence: bytes | None = None
    """The key of the sequence in which the event lacks a number; None if it belongs to no sequence."""


class Numbered(NamedTuple):
    """A work order with a number in a sequence."""

    sequence: bytes
    number: int
    id: bytes


Entry = Numbered | Unnumbered
"""A work order that is written, and about which nothing is decided yet."""


@dataclass(slots=True)
class SequenceState:
    """What is known of a sequence before the entries are decided."""

    high_water_mark: int | None
    """Every number up to here is admitted or given up; None if the first number to arrive begins the sequence."""
    parked: MutableMapping[int, bytes] = field(default_factory=dict)
    """Work orders above the high-water mark, by their numbers."""
    skipped: Sequence[tuple[int, int]] = ()
    """Gaps that an operator gave up, as `(from, to]`."""


@dataclass(slots=True)
class Decision:
    """What becomes of the entries."""

    admitted: int = 0
    rejected: list[AdmissionRejection] = field(default_factory=list)
    parked: list[Numbered] = field(default_factory=list)
    released: list[Numbered] = field(default_factory=list)
    """Parked before, and admitted now; the numbers of one key ascend."""
    admitted_in_order: list[Numbered] = field(default_factory=list)
    """All that are admitted by their number, released ones included; the numbers of one key ascend."""


def decide(entries: Iterable[Entry], sequences: Mapping[bytes, SequenceState], capacity: int | None = None) -> Decision:
    """Decide about entries in the order of their source, and update the sequences, one for each key among them.

    An entry that is rejected for lack of capacity leaves no trace in its sequence, so its event may come again. Parking
    an entry uses no capacity, and neither does releasing it, because a gap must be able to close.
    """
    decision = Decision()
    for entry in entries:
        if isinstance(entry, Numbered):
            _decide_in_sequence(decision, entry, sequences[entry.sequence], capacity)
        elif entry.sequence is None:
            _admit(decision, entry.id, capacity)
        else:
            detail = "the event has the key of a sequence, but no whole number of 64 bits in it"
            decision.rejected.append(AdmissionRejection(entry.id, NO_NUMBER, detail))
    # What this call parked and released is admitted, because no other transaction saw it parked.
    passing = {part.id for part in decision.parked} & {part.id for part in decision.released}
    decision.parked = [part for part in decision.parked if part.id not in passing]
    decision.released = [part for part in decision.released if part.id not in passing]
    decision.admitted += len(passing)
    return decision


def _admit(decision: Decision, id_: bytes, capacity: int | None) -> bool:
    if capacity is not None and decision.admitted >= capacity:
        decision.rejected.append(AdmissionRejection(id_, RUN_LIMIT, "the limit of the workflow was reached"))
        return False
    decision.admitted += 1
    return True


def _decide_in_sequence(decision: Decision, part: Numbered, state: SequenceState, capacity: int | None) -> None:
    key, number, id_ = part
    if state.high_water_mark is not None and number <= state.high_water_mark:
        decision.rejected.append(_reject_below(id_, number, state))
    elif number in state.parked:
        detail = f"number {number} of its sequence is parked already"
        decision.rejected.append(AdmissionRejection(id_, DUPLICATE, detail, state.parked[number]))
    elif state.high_water_mark is not None and number > state.high_water_mark + 1:
        state.parked[number] = id_
        decision.parked.append(part)
    elif _admit(decision, id_, capacity):
        state.high_water_mark = number
        decision.admitted_in_order.append(part)
        if state.parked:
            following = list(drain_contiguous(key, state))
            decision.admitted_in_order += following
            decision.released += following


def drain_contiguous(key: bytes, state: SequenceState) -> Iterator[Numbered]:
    """Yield the work orders that are parked without a gap above the high-water mark, and move the mark up with them."""
    while state.high_water_mark is not None and state.high_water_mark + 1 in state.parked:
        state.high_water_mark += 1
        yield Numbered(key, state.high_water_mark, state.parked.pop(state.high_water_mark))


def _reject_below(id_: bytes, number: int, state: SequenceState) -> AdmissionRejection:
    if any(begin < number <= end for begin, end in state.skipped):
        detail = f"number {number} of its sequence came after an operator gave its gap up"
        return AdmissionRejection(id_, LATE, detail)
    detail = f"number {number} of its sequence is not above {state.high_water_mark}, up to which all were admitted"
    return AdmissionRejection(id_, DUPLICATE, detail)


def parse_number(found: Any) -> int | None:
    """Return the number of an event: a whole number of 64 bits, or its digits as text, as in headers; else None."""
    if isinstance(found, str) and _DIGITS.fullmatch(found):
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found if _MIN_NUMBER <= found <= _MAX_NUMBER else None


class SequenceRule(Rule):
    """Admits as many work orders as there is capacity for, and those with a number in the order of their sequence."""

    reasons: ClassVar = (DUPLICATE, LATE, NO_NUMBER)
    notes: list[Entry]

    def __init__(self, stored: Mapping[str, Any] | None) -> None:
        super().__init__()
        self._selectors = stored and (Selector.parse(stored["key"]), Selector.parse(stored["number"]))
        self._mark = None if stored is None or stored["start"] == "first" else int(stored["start"]) - 1
        self._names: dict[bytes, str] = {}
        self._sequences: dict[bytes, SequenceState] = {}
        self._decision = Decision()

    @classmethod
    def of(cls, trigger: Trigger) -> Iterable["SequenceRule"]:
        """Return the rule also for a workflow with limits: a work order without capacity must not move its sequence."""
        stored = trigger.definition.get("sequence")
        if stored is not None or LimitSettings.of(trigger) is not None:
            yield cls(stored)

    def observe(self, chunk: Chunk, stream_ids: StreamIds) -> Observer:
        """Note the work orders with an input, each with the key and the number of its sequence."""
        note, names = chunk.notes.setdefault(self, []).append, self._names
        value, number = (self._selectors[0].value, self._selectors[1].found) if self._selectors else (None, None)

        def observe(id_: bytes, item: Item) -> None:
            if item.body is None:
                return
            key = value(item) if value else None
            if key is None or number is None:
                note(Unnumbered(id_))
                return
            sequence = hash128(key)
            if sequence not in names:
                names[sequence] = key.decode(errors="replace")[:_MAX_NAME]
            place = parse_number(number(item))
            note(Unnumbered(id_, sequence) if place is None else Numbered(sequence, place, id_))

        return observe

    def decide(self, state: AdmissionState) -> None:
        """Admit, park, or reject each work order that no rule has decided about."""
        entries = [entry for entry in self.notes if entry.id not in state.passed_over]
        self._lock(state, entries)
        self._decision = decide(entries, self._sequences, state.capacity)
        state.admitted, state.released = self._decision.admitted, len(self._decision.released)
        state.rejections += self._decision.rejected

    def _lock(self, state: AdmissionState, entries: Sequence[Entry]) -> None:
        """Lock the sequence of every key, in the order of the keys, and read what matters for the entries.

        A new key begins now. Its high-water mark is before the first number of the definition; if it is None, the first
        number to arrive begins the sequence.
        """
        keys = sorted({entry.sequence for entry in entries if entry.sequence})
        if not keys:
            return
        arguments = {"trigger_id": state.trigger.id, "keys": uuids(keys)}
        new = {"names": [self._names[key] for key in keys], "mark": self._mark}
        marks: dict[bytes, tuple[int | None, int]] = {}
        # An operator may drop a sequence between the two statements; its key then begins again.
        while len(marks) < len(keys):
            state.connection.execute(_QUERIES["begin"], arguments | new)
            marks = lock_high_water_marks(state.connection, state.trigger.id, keys)
        self._sequences = {key: SequenceState(mark) for key, (mark, _) in marks.items()}
        for key, begin, end in state.connection.execute(_QUERIES["given_up"], arguments):
            sequence = self._sequences[key.bytes]
            sequence.skipped = (*sequence.skipped, (begin, end))
        numbered = [part for part in entries if isinstance(part, Numbered) and marks[part.sequence][1]]
        if numbered:
            # A sequence whose next number is not among the entries releases none.
            closing = {part.sequence for part in numbered if part.number - 1 == marks[part.sequence][0]}
            fetch_parked(state.connection, state.trigger.id, self._sequences, closing, numbered)

    def write(self, state: AdmissionState) -> None:
        """Write what is parked and released, and the high-water marks."""
        write(state.connection, state.trigger, self._sequences, self._decision)


def lock_high_water_marks(
    connection: Connection, trigger_id: int, keys: Sequence[bytes]
) -> dict[bytes, tuple[int | None, int]]:
    """Lock the sequences of these keys in their order; return the high-water mark and the parked count of each."""
    arguments = {"trigger_id": trigger_id, "keys": uuids(keys)}
    return {key.bytes: (mark, parked) for key, mark, parked in connection.execute(_QUERIES["lock"], arguments)}


def fetch_parked(
    connection: Connection,
    trigger_id: int,
    sequences: Mapping[bytes, SequenceState],
    closing: Iterable[bytes],
    same: Collection[Numbered] = (),
) -> None:
    """Read all that is parked of the keys whose gap may close, and what is parked under a number that came again."""
    arguments = {"trigger_id": trigger_id, "closing": uuids(closing), **_columns(same)}
    for key, number, id_ in connection.execute(_QUERIES["parked"], arguments):
        sequences[key.bytes].parked[number] = id_.bytes


def write(
    connection: Connection, trigger: Trigger, sequences: Mapping[bytes, SequenceState], decision: Decision
) -> None:
    """Write what is parked, and what is released and waits for a run, and move the high-water marks."""
    parked, released, admitted = decision.parked, decision.released, decision.admitted_in_order
    if parked:
        connection.execute(_QUERIES["park"], {"trigger_id": trigger.id} | _columns(parked))
    if released:
        connection.execute(_QUERIES["release"], {"trigger_id": trigger.id} | _columns(released))
    if trigger.ordering_key is not None and admitted:
        _write_places(connection, trigger, admitted)
    marks = {part.sequence: sequences[part.sequence].high_water_mark for part in admitted}
    more = Counter(part.sequence for part in parked)
    more.subtract(part.sequence for part in released)
    if keys := sorted({*marks, *more}):
        moved = {part.sequence for part in released}
        connection.execute(
            _QUERIES["move"],
            {
                "trigger_id": trigger.id,
                "keys": uuids(keys),
                "marks": integers(marks.get(key) for key in keys),
                "more": [more[key] for key in keys],
                "moved": [key in moved for key in keys],
            },
        )


def _write_places(connection: Connection, trigger: Trigger, admitted: Sequence[Numbered]) -> None:
    """Keep the order of a sequence within an ordering key, where it differs from the order of arrival."""
    newest: dict[bytes, bytes] = {}
    disordered = set()
    for part in admitted:
        if part.id < newest.get(part.sequence, b""):
            disordered.add(part.sequence)
        newest[part.sequence] = part.id
    keys = {"trigger_id": trigger.id, "given_keys": uuids(newest)}
    connection.execute(_QUERIES["forget_places"], keys)
    places = {"workflow_id": trigger.workflow_id, "disordered": [part.sequence in disordered for part in admitted]}
    connection.execute(_QUERIES["place"], keys | places | _columns(admitted))


def _columns(parts: Collection[Numbered]) -> dict[str, str]:
    return {
        "ids": uuids(part.id for part in parts),
        "keys": uuids(part.sequence for part in parts),
        "numbers": integers(part.number for part in parts),
    }
