"""How many requests a webhook takes: a bucket that fills with time; pure apart from what it remembers."""

import math
from threading import Lock


class Bucket:
    """Lets a number of requests a second pass, and a burst at once. Safe to use from several threads.

    Args:
        per_second: how fast it fills.
        burst: how much it holds.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._held = float(burst)
        self._at: float | None = None
        self._lock = Lock()

    def take(self, now: float) -> int:
        """Take one request out; return 0, or after how many whole seconds there is room again.

        Args:
            now: seconds of a clock that never goes back.
        """
        with self._lock:
            if self._at is not None:
                self._held = min(self._burst, self._held + (now - self._at) * self._per_second)
            self._at = now
            if self._held >= 1:
                self._held -= 1
                return 0
            return max(1, math.ceil((1 - self._held) / self._per_second))
