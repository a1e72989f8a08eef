"""Which run a process executes, and since when: sixteen bytes of memory shared by the process and its parent.

It is written for every run, so it must be cheaper than a message in a pipe. Both sides read the same monotonic clock.
"""

import math
import mmap
import os
import tempfile
import time
from struct import Struct
from typing import Final

_SLOTS: Final = Struct("@qd")
_NUMBER_BYTES: Final = 8
_NOTHING: Final = -1


class SharedClock:
    """The shared memory; the process writes and its parent reads."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SLOTS.size)
        # Each is written by one instruction. `Struct.pack_into` writes zeros first: a parent that reads them would
        # conclude that the run began when the machine did, and kill it.
        slots = memoryview(self._memory)
        self._number = slots[:_NUMBER_BYTES].cast("q")
        self._since = slots[_NUMBER_BYTES:].cast("d")
        slots.release()

    @classmethod
    def create(cls) -> "SharedClock":
        """Return new memory without a run."""
        descriptor, path = tempfile.mkstemp(prefix="workorders-clock-")
        os.unlink(path)  # noqa: PTH108 - by the path that mkstemp gave
        os.write(descriptor, _SLOTS.pack(_NOTHING, math.inf))
        return cls(descriptor)

    def start(self, number: int) -> None:
        """Record that a run begins now."""
        self._set(number)
        self._since[0] = time.monotonic()

    def stop(self, number: int) -> None:
        """Record that the callable has returned: its time is no longer counted, but its result has not arrived yet."""
        self._set(number)

    def clear(self) -> None:
        """Record that there is no run."""
        self._set(_NOTHING)

    def read(self) -> tuple[int | None, float]:
        """Return the number of the current run, None if there is none, and for how many seconds it has run."""
        number, since = self._number[0], self._since[0]
        # The two are written one after the other: a pair counts only if a second read finds it unchanged.
        while (again := (self._number[0], self._since[0])) != (number, since):
            number, since = again
        return (None if number == _NOTHING else number), max(time.monotonic() - since, 0.0)

    def _set(self, number: int) -> None:
        # No time while the number changes, so that no number ever appears with the time of another one.
        self._since[0] = math.inf
        self._number[0] = number

    def close(self) -> None:
        """Free the memory."""
        self._number.release()
        self._since.release()
        self._memory.close()
        os.close(self.descriptor)
