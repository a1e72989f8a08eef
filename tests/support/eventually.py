"""Waits for what must come true by itself, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.25


def eventually(question: Callable[[], T], *, seconds: float, what: str, every: float = POLL_SECONDS) -> T:
    """Ask until the answer is true, and return it.

    Args:
        question: asked again and again; its last false answer is part of the failure.
        seconds: how long the answer may stay false.
        what: what is waited for, in words.
        every: seconds between two questions.

    Raises:
        AssertionError: it did not come true in time.
    """
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {seconds:g} s; the last answer was {answer!r}.")
        time.sleep(every)
    return answer
