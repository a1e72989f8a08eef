"""How long runs last, and what follows for handing them out."""

from typing import Final

AHEAD_SECONDS: Final = 0.05
"""Work that a process should have in hand, so that it never waits for the next job."""
MOST_AHEAD: Final = 256
SHORT_SECONDS: Final = 0.002
"""Shorter runs are done sooner than a second process is fed."""
_NEWEST_SHARE: Final = 0.1


class Pace:
    """The mean of the last runs; a run that lasts longer than that already counts as well."""

    def __init__(self) -> None:
        self._mean: float | None = None

    def ended(self, seconds: float) -> None:
        """Count a run that has ended."""
        mean = self._mean
        self._mean = seconds if mean is None else mean + _NEWEST_SHARE * (seconds - mean)

    def seconds(self, longest_at_work: float) -> float | None:
        """Return about how long a run lasts; None as long as nothing shows it."""
        if self._mean is None:
            return longest_at_work or None
        return max(self._mean, longest_at_work)


def ahead(seconds: float | None) -> int:
    """Return how many jobs a process holds: short ones many, so that it never waits; long ones just the next."""
    return 1 if seconds is None else max(1, min(MOST_AHEAD, int(AHEAD_SECONDS / max(seconds, 1e-6))))


def useful_processes(seconds: float | None, most: int) -> int:
    """Return how many processes pay."""
    return most if seconds is not None and seconds >= SHORT_SECONDS else 1
