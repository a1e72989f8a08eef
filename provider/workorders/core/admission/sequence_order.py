"""Which numbered work orders are let in, parked or turned away: pure, so that any order of arrival can be tried."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from workorders.core.admission.rejections import DUPLICATE, TurnedAway

LATE: Final = "late-in-sequence"
NO_NUMBER: Final = "no-sequence-number"
RUN_LIMIT: Final = "run-limit"

SMALLEST_NUMBER: Final = -(2**63)
LARGEST_NUMBER: Final = 2**63 - 1


class Entry(NamedTuple):
    """A work order that was written and waits for the verdict."""

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
class Standing:
    """How a sequence stands before the entries come."""

    mark: int | None
    """Every number up to here is dealt with; None when the first number to arrive begins the sequence."""
    parked: MutableMapping[int, bytes] = field(default_factory=dict)
    """Work orders beyond the mark, by their numbers."""
    skipped: Sequence[tuple[int, int]] = ()
    """Gaps, `(from, to]`, that an operator gave up."""


@dataclass(slots=True)
class Verdict:
    """What becomes of the entries."""

    admitted: int = 0
    turned_away: list[TurnedAway] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    released: list[Parked] = field(default_factory=list)
    """Parked before, now let in; the numbers of one key ascend."""
    let_in: list[Parked] = field(default_factory=list)
    """All that were let in by their number, of now and released; the numbers of one key ascend."""


def decide(entries: Iterable[Entry], standings: Mapping[bytes, Standing], room: int | None = None) -> Verdict:
    """Judge entries in their order, and move the standings on to what holds afterwards.

    What is turned away for want of room leaves no trace in its sequence, so it may come again. What was parked takes no
    room, and what follows it out of the park needs none: a gap must be able to close.

    Args:
        entries: in the order of their source.
        standings: of every key among the entries.
        room: how many may be let in; None for no limit.
    """
    verdict = Verdict()
    before = {key: frozenset(standing.parked) for key, standing in standings.items()}
    for entry in entries:
        if entry.sequence is None:
            _let_in(verdict, entry, room)
        elif entry.number is None:
            detail = "the event has the key of a sequence, but no whole number of 64 bits in it"
            verdict.turned_away.append(TurnedAway(entry.id, NO_NUMBER, detail))
        else:
            _in_sequence(verdict, entry, entry.sequence, entry.number, standings[entry.sequence], room)
    _split_what_was_parked_before(verdict, before)
    return verdict


def _let_in(verdict: Verdict, entry: Entry, room: int | None) -> bool:
    if room is not None and verdict.admitted >= room:
        verdict.turned_away.append(TurnedAway(entry.id, RUN_LIMIT, "the limit of the workflow was reached"))
        return False
    verdict.admitted += 1
    return True


def _in_sequence(  # noqa: PLR0917 - one call a numbered entry
    verdict: Verdict, entry: Entry, key: bytes, number: int, standing: Standing, room: int | None
) -> None:
    if standing.mark is not None and number <= standing.mark:
        verdict.turned_away.append(_behind(entry.id, number, standing))
    elif number in standing.parked:
        detail = f"number {number} of its sequence is parked already"
        verdict.turned_away.append(TurnedAway(entry.id, DUPLICATE, detail, standing.parked[number]))
    elif standing.mark is not None and number > standing.mark + 1:
        standing.parked[number] = entry.id
        verdict.parked.append(Parked(key, number, entry.id))
    elif _let_in(verdict, entry, room):
        standing.mark = number
        verdict.let_in.append(Parked(key, number, entry.id))
        if standing.parked:
            behind = list(in_line(key, standing))
            verdict.let_in += behind
            verdict.released += behind


def in_line(key: bytes, standing: Standing) -> Iterator[Parked]:
    """Yield what is parked right behind the mark, and move the mark over it."""
    while standing.mark is not None and standing.mark + 1 in standing.parked:
        standing.mark += 1
        yield Parked(key, standing.mark, standing.parked.pop(standing.mark))


def _behind(id_: bytes, number: int, standing: Standing) -> TurnedAway:
    if any(begin < number <= end for begin, end in standing.skipped):
        detail = f"number {number} of its sequence came after an operator had given the gap up"
        return TurnedAway(id_, LATE, detail)
    detail = f"number {number} of its sequence is not above {standing.mark}, up to which all were let in"
    return TurnedAway(id_, DUPLICATE, detail)


def _split_what_was_parked_before(verdict: Verdict, before: Mapping[bytes, frozenset[int]]) -> None:
    """Forget the parking of entries that the same call let in again: nobody ever saw them parked."""
    passing = {part.id for part in verdict.released if part.number not in before[part.sequence]}
    verdict.parked = [part for part in verdict.parked if part.id not in passing]
    verdict.released = [part for part in verdict.released if part.id not in passing]
    verdict.admitted += len(passing)
