"""Updates the full text and the counts by state, which keep queries of history fast."""

import time
from dataclasses import dataclass

from workorders.core.history import search_index, state_counts
from workorders.core.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What was updated."""

    filled: int
    """Work orders whose words were added."""
    looked_again: int
    """Older work orders that were searched for late ones."""
    counted: bool
    """Whether the counts by state are new."""


def refresh_history(connection: Connection, *, seconds: float = 3600.0) -> RefreshResult:
    """Add words until none are left or the time is over; count by state if the counts are due."""
    end = time.monotonic() + seconds
    filled = looked_again = 0
    while time.monotonic() < end and (added := search_index.index_new(connection)):
        filled += added
    while time.monotonic() < end and (looked := search_index.index_late(connection)):
        looked_again += looked
    return RefreshResult(filled, looked_again, state_counts.refresh_counts(connection))
