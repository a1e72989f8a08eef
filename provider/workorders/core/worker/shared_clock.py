"""Which run a process has in hand, and since when: sixteen bytes of memory that the process and its parent share.

It is written for every run, so it must cost nothing; a message in a pipe would. Both sides read one monotonic clock.
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
    """The shared memory; the process writes, its parent reads."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SLOTS.size)
        # Each is written by one instruction. `Struct.pack_into` fills the place with zeros first, and a parent that
        # looks at that moment would take the run for one that began when the machine did, and kill it.
        slots = memoryview(self._memory)
        self._number = slots[:_NUMBER_BYTES].cast("q")
        self._since = slots[_NUMBER_BYTES:].cast("d")
        slots.release()

    @classmethod
    def create(cls) -> "SharedClock":
        """Return new memory in which no run is in hand."""
        descriptor, path = tempfile.mkstemp(prefix="workorders-clock-")
        os.unlink(path)  # noqa: PTH108 - by the path that mkstemp gave
        os.write(descriptor, _SLOTS.pack(_NOTHING, math.inf))
        return cls(descriptor)

    def begin(self, number: int) -> None:
        """Take a run in hand."""
        self._set(number)
        self._since[0] = time.monotonic()

    def ended(self, number: int) -> None:
        """Say that the callable has returned: its time is no longer counted, but its outcome is still on its way."""
        self._set(number)

    def nothing(self) -> None:
        """Say that no run is in hand."""
        self._set(_NOTHING)

    def read(self) -> tuple[int | None, float]:
        """Return the number of the run in hand, None if there is none, and for how many seconds it has run."""
        number, since = self._number[0], self._since[0]
        # The two are written one after the other: a number is only believed with the time that stays beside it.
        while (again := (self._number[0], self._since[0])) != (number, since):
            number, since = again
        return (None if number == _NOTHING else number), max(time.monotonic() - since, 0.0)

    def _set(self, number: int) -> None:
        # No time while the number changes: at no instant does a number stand beside the time of another one.
        self._since[0] = math.inf
        self._number[0] = number

    def close(self) -> None:
        """Give the memory back."""
        self._number.release()
        self._since.release()
        self._memory.close()
        os.close(self.descriptor)
