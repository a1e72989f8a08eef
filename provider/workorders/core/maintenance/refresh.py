"""What has to be done now and then so that history answers fast: full text and counts, brought up to date."""

import time
from dataclasses import dataclass

from workorders.core.history import search_index, state_counts
from workorders.core.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What was brought up to date."""

    filled: int
    """Work orders whose words were added."""
    looked_again: int
    """Older ones among which late ones were sought."""
    counted: bool
    """Whether the counts by state are new."""


def refresh_history(connection: Connection, *, seconds: float = 3600.0) -> RefreshResult:
    """Add words until there is nothing left to add, or the time is over, and count if it is time to.

    Args:
        connection: without an open transaction; each step has its own.
        seconds: no step begins after so many seconds; the next call goes on.
    """
    end = time.monotonic() + seconds
    filled = looked_again = 0
    while time.monotonic() < end and (added := search_index.index_new(connection)):
        filled += added
    while time.monotonic() < end and (looked := search_index.index_late(connection)):
        looked_again += looked
    return RefreshResult(filled, looked_again, state_counts.refresh_counts(connection))
