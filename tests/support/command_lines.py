"""The command lines of a process's descendants, as everybody on the machine can read them."""

import contextlib
from types import TracebackType
from typing import Self

import psutil

from support.lookout import Lookout

LOOK_SECONDS = 0.3


class CommandLines:
    """Collects, from entering the context until leaving it, every command line that is seen."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._lookout = Lookout(self._collect, LOOK_SECONDS)
        #: Command lines seen so far, each argument on its own.
        self.seen: set[tuple[str, ...]] = set()

    def __enter__(self) -> Self:
        """Begin."""
        self._lookout.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lookout.__exit__(kind, error, traceback)

    def _collect(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in self._root.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    self.seen.add(tuple(process.cmdline()))
