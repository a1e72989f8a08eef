"""Waiting for a condition, with a deadline."""

import time
from collections.abc import Callable

_POLL_SECONDS = 0.05


def wait_until(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Ask until the condition holds or the time is over; return whether it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
