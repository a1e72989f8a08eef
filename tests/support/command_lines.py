"""The command lines of a process's descendants, as everybody on the machine can read them."""

import contextlib

import psutil

from support.lookout import Lookout

LOOK_SECONDS = 1.0
"""Applications run for longer, and each look reads of all processes of the machine during all end-to-end tests."""


class CommandLines(Lookout):
    """Collects, from entering the context until leaving it, every command line that is seen."""

    def __init__(self, pid: int) -> None:
        super().__init__(self._collect, LOOK_SECONDS)
        self._root = psutil.Process(pid)
        #: Command lines seen so far, each argument on its own.
        self.seen: set[tuple[str, ...]] = set()

    def _collect(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in self._root.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    self.seen.add(tuple(process.cmdline()))
