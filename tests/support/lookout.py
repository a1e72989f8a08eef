"""Looks again and again during what a test does."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Lookout:
    """Calls a function in its own thread, from entering the context until leaving it.

    Args:
        look: what is called; its first failure ends the calls.
        seconds: the pause before each call.
    """

    def __init__(self, look: Callable[[], object], seconds: float) -> None:
        self._look = look
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        #: What ended the calls early; a thread would end in silence.
        self.failure: Exception | None = None

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            try:
                self._look()
            except Exception as failure:  # noqa: BLE001 - whatever it is, the look is over
                self.failure = failure
                return
