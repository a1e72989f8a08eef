"""Kills what a function's process has started, also in sessions of its own and when their parents have ended.

A variable in the environment, which programs inherit, tells whose they are. So nothing has to be known about the other
children of the worker, as it would if the worker adopted them (as a subreaper).
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "WORKORDERS_PROCESS"
"""The variable; its value is of one process of functions alone."""
_MAX_LOOKS: Final = 20
_LOOK_SECONDS: Final = 0.005
"""In which a killed process ends, and what it started meanwhile is seen."""


def kill_descendants(mark: str) -> None:
    """Kill all processes of this user whose environment has a mark, on Linux; one that was cleared has none."""
    if sys.platform != "linux":
        return
    for _ in range(_MAX_LOOKS):
        found = list(_processes_with(f"\0{MARK}={mark}\0".encode()))
        if not found:
            return
        for pid in found:
            # It may have ended already.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _processes_with(variable: bytes) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        # Those of other users cannot be read, and some end meanwhile.
        with suppress(OSError):
            if variable in b"\0" + (folder / "environ").read_bytes():
                yield int(folder.name)
