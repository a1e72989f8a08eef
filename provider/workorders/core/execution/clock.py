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

# Native types: each is written by one instruction, where the standard ones would be written byte by byte.
_SLOTS: Final = Struct("@qd")
_NOTHING: Final = -1


class SharedClock:
    """The shared memory; the process writes, its parent reads."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SLOTS.size)

    @classmethod
    def create(cls) -> "SharedClock":
        """Return new memory in which no run is in hand."""
        descriptor, path = tempfile.mkstemp(prefix="workorders-clock-")
        os.unlink(path)  # noqa: PTH108 - by the path that mkstemp gave
        os.write(descriptor, _SLOTS.pack(_NOTHING, math.inf))
        return cls(descriptor)

    def begin(self, number: int) -> None:
        """Take a run in hand."""
        _SLOTS.pack_into(self._memory, 0, number, time.monotonic())

    def ended(self, number: int) -> None:
        """Say that the callable has returned: its time is no longer counted, but its outcome is still on its way."""
        _SLOTS.pack_into(self._memory, 0, number, math.inf)

    def nothing(self) -> None:
        """Say that no run is in hand."""
        _SLOTS.pack_into(self._memory, 0, _NOTHING, math.inf)

    def read(self) -> tuple[int | None, float]:
        """Return the number of the run in hand, None if there is none, and for how many seconds it has run."""
        number, since = _SLOTS.unpack_from(self._memory)
        # The two are written one after the other: a number is only believed with the time that stays beside it.
        while (again := _SLOTS.unpack_from(self._memory)) != (number, since):
            number, since = again
        return (None if number == _NOTHING else number), max(time.monotonic() - since, 0.0)

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()
        os.close(self.descriptor)
