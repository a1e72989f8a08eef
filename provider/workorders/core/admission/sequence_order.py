"""Which numbered work orders are admitted, parked, or rejected. Pure, so that tests can try any order of arrival."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from workorders.core.admission.duplicates import DUPLICATE

LATE: Final = "late-in-sequence"
NO_NUMBER: Final = "no-sequence-number"
RUN_LIMIT: Final = "run-limit"

_MIN_NUMBER: Final = -(2**63)
_MAX_NUMBER: Final = 2**63 - 1
_MAX_DIGITS: Final = 19


class AdmissionRejection(NamedTuple):
    """A work order that a rule rejects."""

    id: bytes
    code: str
    """A short kebab-case word to filter by, such as `duplicate`."""
    detail: str
    """One plain clause; it contains no value of the event."""
    original: bytes | None = None
    """The work order that this one repeats, if it is known."""


class Entry(NamedTuple):
    """A work order that is written, and about which nothing is decided yet."""

    id: bytes
    sequence: bytes | None = None
    """Key of its sequence; None if it belongs to none."""
    number: int | None = None
    """Place in the sequence; None if the event has a key and no number."""


class Numbered(NamedTuple):
    """A work order with a number in a sequence."""

    sequence: bytes
    number: int
    id: bytes


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
    before = {key: frozenset(state.parked) for key, state in sequences.items()}
    for entry in entries:
        if entry.sequence is None:
            _admit(decision, entry, capacity)
        elif entry.number is None:
            detail = "the event has the key of a sequence, but no whole number of 64 bits in it"
            decision.rejected.append(AdmissionRejection(entry.id, NO_NUMBER, detail))
        else:
            _decide_in_sequence(decision, entry, entry.sequence, entry.number, sequences[entry.sequence], capacity)
    _drop_parking_within_call(decision, before)
    return decision


def _admit(decision: Decision, entry: Entry, capacity: int | None) -> bool:
    if capacity is not None and decision.admitted >= capacity:
        decision.rejected.append(AdmissionRejection(entry.id, RUN_LIMIT, "the limit of the workflow was reached"))
        return False
    decision.admitted += 1
    return True


def _decide_in_sequence(  # noqa: PLR0917 - one call a numbered entry
    decision: Decision, entry: Entry, key: bytes, number: int, state: SequenceState, capacity: int | None
) -> None:
    if state.high_water_mark is not None and number <= state.high_water_mark:
        decision.rejected.append(_reject_below(entry.id, number, state))
    elif number in state.parked:
        detail = f"number {number} of its sequence is parked already"
        decision.rejected.append(AdmissionRejection(entry.id, DUPLICATE, detail, state.parked[number]))
    elif state.high_water_mark is not None and number > state.high_water_mark + 1:
        state.parked[number] = entry.id
        decision.parked.append(Numbered(key, number, entry.id))
    elif _admit(decision, entry, capacity):
        state.high_water_mark = number
        decision.admitted_in_order.append(Numbered(key, number, entry.id))
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


def _drop_parking_within_call(decision: Decision, before: Mapping[bytes, frozenset[int]]) -> None:
    """Count entries that this call parked and released as admitted, because no other transaction saw them parked."""
    passing = {part.id for part in decision.released if part.number not in before[part.sequence]}
    decision.parked = [part for part in decision.parked if part.id not in passing]
    decision.released = [part for part in decision.released if part.id not in passing]
    decision.admitted += len(passing)


def parse_number(found: Any) -> int | None:
    """Return the number of an event: a whole number of 64 bits, or its digits as text, as in headers; else None."""
    if isinstance(found, str):
        digits = found.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
            return None
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found if _MIN_NUMBER <= found <= _MAX_NUMBER else None
