"""Waits for what must come true by itself, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5


def eventually(question: Callable[[], T], *, seconds: float, what: str, every: float | None = None) -> T:
    """Ask until the answer is true, and return it.

    Args:
        question: asked again and again; its last false answer is part of the failure.
        seconds: how long the answer may stay false.
        what: what is waited for, in words.
        every: seconds between two questions; by default a tenth of the wait so far, within bounds.

    Raises:
        AssertionError: it did not come true in time.
    """
    begun = time.monotonic()
    while not (answer := question()):
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(f"{what} did not happen within {seconds:g} s; the last answer was {answer!r}.")
        time.sleep(every or min(max(waited / 10, _SHORTEST_PAUSE), _LONGEST_PAUSE))
    return answer
