"""What arrived of messages that were sent: how many are missing, too many, or in the wrong order."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Message = tuple[int, int]
"""A producer's number and a sequence number: what a message's content follows from."""
Place = tuple[Hashable, Any]
"""What has an order, such as a key; and the position in it, which is compared."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """What became of the messages at one end: all counts but `found` are 0 when the promises were kept."""

    found: int
    lost: int
    doubled: int
    strange: int
    """Those that nobody sent."""
    overtaken: int
    """Those that came after a later one of their key."""

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.doubled or self.strange or self.overtaken)

    def __str__(self) -> str:
        return (
            f"{self.found:,}: {self.lost} lost, {self.doubled} doubled, {self.strange} of no input, "
            f"{self.overtaken} overtaken within a key"
        )


def compare(found: Iterable[Message], sent: Mapping[Message, Place]) -> Arrived:
    """Compare what arrived with what was sent.

    Args:
        found: in the order in which it arrived; one that arrives again is too many, and overtakes nothing.
        sent: the messages, and their places in the order that they must have.
    """
    times = Counter(found)
    known = [message for message in times if message in sent]
    latest: dict[Hashable, Any] = {}
    overtaken = 0
    for message in known:
        key, position = sent[message]
        overtaken += key in latest and position < latest[key]
        latest[key] = max(position, latest.get(key, position))
    arrived = sum(times[message] for message in known)
    return Arrived(
        found=times.total(),
        lost=len(sent) - len(known),
        doubled=arrived - len(known),
        strange=times.total() - arrived,
        overtaken=overtaken,
    )
