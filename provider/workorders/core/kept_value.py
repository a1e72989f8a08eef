"""A value that many callers need: read once at a time, in its own thread, and kept for a time, as a failure is."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final, Generic, TypeVar

import anyio.to_thread

_T = TypeVar("_T")
_PATIENCE_SECONDS: Final = 5.0
_SHORT_PATIENCE_SECONDS: Final = 1.0
"""How long a caller waits for a read if the last value can serve it."""


@dataclass(eq=False)
class KeptValue(Generic[_T]):
    """Reads a value when it is requested. Used on one event loop.

    However many callers there are, they cost one read per `seconds`, and one per `failure_seconds` while reads fail.
    Airflow's own pages share the default threads, so a read that hangs must not occupy one of these.
    """

    read: Callable[[], _T]
    """Returns the value, or raises; it may block."""
    clock: Callable[[], float]
    """Returns the seconds of a monotonic clock."""
    _: KW_ONLY
    seconds: float
    """How long a value is kept."""
    failure_seconds: float
    """How long no read follows a failed one, or one that takes too long."""
    stale_seconds: float = 0.0
    """How long a value remains valid while reads fail."""

    def __post_init__(self) -> None:
        self._values: list[_T] = []
        self._error: Exception | None = None
        self._read_again_at = self._stale_until = -math.inf
        self._reading: asyncio.Task[None] | None = None
        self._limiter = anyio.CapacityLimiter(1)

    async def get(self) -> _T:
        """Return the value.

        Raises:
            TimeoutError: the read takes longer than five seconds.
            Exception: whatever the last read raised.
        """
        now = self.clock()
        if now >= self._read_again_at:
            if self._reading is None:
                self._reading = asyncio.create_task(self._look_up())
            # Not cancelled with the caller or by the time limit, because the value is for all callers.
            patience = _SHORT_PATIENCE_SECONDS if now < self._stale_until else _PATIENCE_SECONDS
            done, _ = await asyncio.wait({self._reading}, timeout=patience)
            if not done:
                self._fail(TimeoutError(f"The read takes longer than {patience:g} s."))
        if self._error is not None and now >= self._stale_until:
            raise self._error.with_traceback(None)
        return self._values[0]

    async def _look_up(self) -> None:
        try:
            self._values = [await anyio.to_thread.run_sync(self.read, limiter=self._limiter)]
        except Exception as error:  # noqa: BLE001 - a secrets backend may raise anything; it is raised for each caller
            self._fail(error)
        else:
            now = self.clock()
            self._error, self._read_again_at = None, now + self.seconds
            self._stale_until = self._read_again_at + self.stale_seconds
        finally:
            self._reading = None

    def _fail(self, error: Exception) -> None:
        self._error, self._read_again_at = error, self.clock() + self.failure_seconds
