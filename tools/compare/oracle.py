"""Compares the rows of a tool with what was sent, by arithmetic on the producer's journal: no log is read."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from faults import producer
from faults.contents import ACCEPTED, kind

POISON: Final = "poison"
"""Kind of a message that is a JSON object, and that Postgres refuses in a column of type jsonb."""
_STORABLE: Final = {"number-out-of-range"}
"""Kinds that are bad for some tools only: a row with their content keeps them as well."""

Place = tuple[int, int]
"""Producer and sequence number: what a message's content follows from."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One message that the broker has acknowledged."""

    producer: int
    sequence: int
    kind: str
    key: str

    @property
    def place(self) -> Place:
        """What the content is known by."""
        return self.producer, self.sequence


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the messages of one case."""

    messages: int
    """Messages that must have a row."""
    lost: int
    failed: int
    """Messages without a row that the tool keeps for a person: they are not lost."""
    doubled: int
    """Rows too many."""
    overtaken: int
    """Rows that came after the row of a later message with the same key."""
    strays: int
    """Rows of aborted messages."""
    bad: int
    """Messages that can have no row."""
    bad_kept: int
    """Of them, those that a person can still find with their content."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return (
            not (self.lost or self.failed or self.doubled or self.overtaken or self.strays)
            and self.bad_kept == self.bad
        )


def read_journal(text: str, keys: int) -> list[Sent]:
    """Return the messages of a producer's journal.

    Raises:
        AssertionError: the producer did not end well.
    """
    places = producer.read_journal(text)
    return [Sent(number, sequence, kind(sequence), f"{sequence % keys}") for number, sequence, *_ in places]


def judge(sent: Sequence[Sent], rows: Sequence[Place], kept: int) -> Verdict:
    """Count what was lost, doubled, overtaken, and kept.

    Args:
        sent: what must be there.
        rows: contents of the tool's rows, in the order in which they were inserted.
        kept: how many messages the tool has in another place, for a person.
    """
    good = {message.place: message for message in sent if message.kind == ACCEPTED}
    bad = {message.place: message for message in sent if message.kind != ACCEPTED}
    times = Counter(place for place in rows if place in good)
    in_rows = {place for place in rows if place in bad and bad[place].kind in _STORABLE}
    missing, kept = len(good.keys() - times.keys()), kept + len(in_rows)
    failed = max(0, min(missing, kept - len(bad)))
    return Verdict(
        messages=len(good),
        lost=missing - failed,
        failed=failed,
        doubled=times.total() - len(times),
        overtaken=_overtaken(good[place] for place in dict.fromkeys(rows) if place in good),
        strays=sum(place not in good and place not in bad for place in rows),
        bad=len(bad),
        bad_kept=min(len(bad), kept),
    )


def _overtaken(rows: Iterable[Sent]) -> int:
    latest: dict[tuple[int, str], int] = {}
    overtaken = 0
    for message in rows:
        key = message.producer, message.key
        overtaken += message.sequence < latest.get(key, -1)
        latest[key] = max(message.sequence, latest.get(key, -1))
    return overtaken
