"""Looks all the time whether group <= ledger <= persisted, while other things go wrong."""

import contextlib
import threading
from types import TracebackType
from typing import Self

import psycopg

from support.observed_trigger import ObservedTrigger

LOOK_SECONDS = 1.0


class CommitOrder:
    """Compares the three numbers of every partition, from entering the context until leaving it.

    The three are read one after the other, the smallest first: each only grows, so a true order is never reported as
    broken. Whoever is away while a test takes it away is not asked.

    Args:
        trigger: whose topic holds no aborted messages, so that every offset before the ledger has a work order.
    """

    def __init__(self, trigger: ObservedTrigger) -> None:
        self._trigger = trigger
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._broken: list[str] = []
        #: How often all three could be read.
        self.looks = 0

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if error is None:
            assert self._broken == []
            assert self.looks > 0

    def _look_on(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            with contextlib.suppress(psycopg.OperationalError):
                self._look()

    def _look(self) -> None:
        committed = self._trigger.group_offsets()
        ledger = self._trigger.next_offsets()
        persisted = {partition: len(offsets) for partition, offsets in self._trigger.work_orders().items()}
        for partition, next_offset in ledger.items():
            group, rows = committed.get(partition, 0), persisted.get(partition, 0)
            if not group <= next_offset <= rows:
                self._broken.append(f"partition {partition}: group {group}, ledger {next_offset}, persisted {rows}")
        self.looks += 1
