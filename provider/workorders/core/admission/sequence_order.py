"""Which numbered work orders are let in, parked or turned away: pure, so that any order of arrival can be tried."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from workorders.core.admission.rejections import DUPLICATE, AdmissionRejection

LATE: Final = "late-in-sequence"
NO_NUMBER: Final = "no-sequence-number"
RUN_LIMIT: Final = "run-limit"

_MIN_NUMBER: Final = -(2**63)
_MAX_NUMBER: Final = 2**63 - 1
_MAX_DIGITS: Final = 19


class Entry(NamedTuple):
    """A work order that was written and waits for the decision."""

    id: bytes
    sequence: bytes | None = None
    """Key of its sequence; None when it is held to no order."""
    number: int | None = None
    """Place in the sequence; None when the event has a key and no number."""


class Parked(NamedTuple):
    """A work order beyond a gap."""

    sequence: bytes
    number: int
    id: bytes


@dataclass(slots=True)
class SequenceState:
    """How a sequence stands before the entries come."""

    mark: int | None
    """Every number up to here is dealt with; None when the first number to arrive begins the sequence."""
    parked: MutableMapping[int, bytes] = field(default_factory=dict)
    """Work orders beyond the mark, by their numbers."""
    skipped: Sequence[tuple[int, int]] = ()
    """Gaps, `(from, to]`, that an operator gave up."""


@dataclass(slots=True)
class Decision:
    """What becomes of the entries."""

    admitted: int = 0
    rejected: list[AdmissionRejection] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    released: list[Parked] = field(default_factory=list)
    """Parked before, now let in; the numbers of one key ascend."""
    let_in: list[Parked] = field(default_factory=list)
    """All that were let in by their number, of now and released; the numbers of one key ascend."""


def decide(entries: Iterable[Entry], sequences: Mapping[bytes, SequenceState], capacity: int | None = None) -> Decision:
    """Decide about entries in their order, and update the sequences.

    An entry that is rejected for lack of capacity leaves no trace in its sequence, so its event may come again. Parking
    an entry uses no capacity, and neither does releasing it, because a gap must be able to close.

    Args:
        entries: in the order of their source.
        sequences: of every key among the entries.
        capacity: how many may be let in; None for no limit.
    """
    decision = Decision()
    before = {key: frozenset(state.parked) for key, state in sequences.items()}
    for entry in entries:
        if entry.sequence is None:
            _let_in(decision, entry, capacity)
        elif entry.number is None:
            detail = "the event has the key of a sequence, but no whole number of 64 bits in it"
            decision.rejected.append(AdmissionRejection(entry.id, NO_NUMBER, detail))
        else:
            _in_sequence(decision, entry, entry.sequence, entry.number, sequences[entry.sequence], capacity)
    _split_what_was_parked_before(decision, before)
    return decision


def _let_in(decision: Decision, entry: Entry, capacity: int | None) -> bool:
    if capacity is not None and decision.admitted >= capacity:
        decision.rejected.append(AdmissionRejection(entry.id, RUN_LIMIT, "the limit of the workflow was reached"))
        return False
    decision.admitted += 1
    return True


def _in_sequence(  # noqa: PLR0917 - one call a numbered entry
    decision: Decision, entry: Entry, key: bytes, number: int, state: SequenceState, capacity: int | None
) -> None:
    if state.mark is not None and number <= state.mark:
        decision.rejected.append(_behind(entry.id, number, state))
    elif number in state.parked:
        detail = f"number {number} of its sequence is parked already"
        decision.rejected.append(AdmissionRejection(entry.id, DUPLICATE, detail, state.parked[number]))
    elif state.mark is not None and number > state.mark + 1:
        state.parked[number] = entry.id
        decision.parked.append(Parked(key, number, entry.id))
    elif _let_in(decision, entry, capacity):
        state.mark = number
        decision.let_in.append(Parked(key, number, entry.id))
        if state.parked:
            behind = list(in_line(key, state))
            decision.let_in += behind
            decision.released += behind


def in_line(key: bytes, state: SequenceState) -> Iterator[Parked]:
    """Yield what is parked right behind the mark, and move the mark over it."""
    while state.mark is not None and state.mark + 1 in state.parked:
        state.mark += 1
        yield Parked(key, state.mark, state.parked.pop(state.mark))


def _behind(id_: bytes, number: int, state: SequenceState) -> AdmissionRejection:
    if any(begin < number <= end for begin, end in state.skipped):
        detail = f"number {number} of its sequence came after an operator had given the gap up"
        return AdmissionRejection(id_, LATE, detail)
    detail = f"number {number} of its sequence is not above {state.mark}, up to which all were let in"
    return AdmissionRejection(id_, DUPLICATE, detail)


def _split_what_was_parked_before(decision: Decision, before: Mapping[bytes, frozenset[int]]) -> None:
    """Forget the parking of entries that the same call let in again: nobody ever saw them parked."""
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
