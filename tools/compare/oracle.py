"""Compares the rows of a tool with what was sent, by arithmetic on the producer's journal: no log is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from faults import producer
from faults.arrived import Message, compare
from faults.contents import ACCEPTED, kind

POISON: Final = "poison"
"""Kind of a message that is a JSON object, and that Postgres refuses in a column of type jsonb."""
_STORABLE: Final = {"number-out-of-range"}
"""Kinds that are bad for some tools only: a row with their content keeps them as well."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One message that the broker has acknowledged."""

    producer: int
    sequence: int
    kind: str
    key: str
    position: tuple[int, int] = (0, 0)
    """Run of the producers, and offset: the order in which messages with one key must be done."""

    @property
    def message(self) -> Message:
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
    # Two producers with successive numbers write at the same time; a topic that is re-created starts at offset 0 again.
    return [
        Sent(number, sequence, kind(sequence), f"{sequence % keys}", (number // 2, offset))
        for number, sequence, _, offset in producer.read_journal(text)
    ]


def judge(sent: Sequence[Sent], rows: Sequence[Message], kept: int) -> Verdict:
    """Count what was lost, doubled, overtaken, and kept.

    Args:
        sent: what must be there.
        rows: contents of the tool's rows, in the order in which they were inserted.
        kept: how many messages the tool has in another place, for a person.
    """
    good = {one.message: (one.key, one.position) for one in sent if one.kind == ACCEPTED}
    bad = {one.message: one.kind for one in sent if one.kind != ACCEPTED}
    arrived = compare([row for row in rows if row not in bad], good)
    kept += sum(bad.get(row) in _STORABLE for row in set(rows))
    failed = max(0, min(arrived.lost, kept - len(bad)))
    return Verdict(
        messages=len(good),
        lost=arrived.lost - failed,
        failed=failed,
        doubled=arrived.doubled,
        overtaken=arrived.overtaken,
        strays=arrived.strange,
        bad=len(bad),
        bad_kept=min(len(bad), kept),
    )
