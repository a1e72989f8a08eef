"""What all triggers have in common: they look again and again until there is something to do."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import (
    BaseTrigger,
    TaskSkippedEvent,
    TaskSuccessEvent,
    TriggerEvent,
)

from workorders.airflow.task_errors import FAILURES, reason
from workorders.core.backoff import LONGEST_SECONDS, delay_seconds
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import is_outage

Look = Callable[[], Awaitable[str | None]]
"""Looks once, and returns why the wait is over; None when it is not."""

FAILED = "failed"
"""Key of the sentence in the event of a wait that failed."""


class WaitingTrigger(BaseTrigger):
    """Looks until there is something to do, and ends the task right there, without starting a worker for it.

    Only a failure that waiting does not heal goes to a worker: that is where Airflow asks a task's retry policy, and
    from the triggerer alone the next try would come when Airflow's own back-off says.

    It only says "look": what is taken is decided later, in the database. Two triggerers that run it at once do no
    harm, and neither does one that starts it anew. What is away is waited for, with back-off and a line in the log.

    Args:
        poll_interval: seconds between two looks.
        idle_after: seconds after which the wait ends without anything, so that a run does not last for ever.
    """

    healing: ClassVar[tuple[type[Exception], ...]] = (AirflowRuntimeError,)
    """Failures that may pass, as an outage of the database does: the next look comes after a while."""

    def __init__(self, *, poll_interval: float, idle_after: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poll_interval = poll_interval
        self.idle_after = idle_after
        self._failures = 0

    @property
    @abstractmethod
    def subject(self) -> str:
        """Who waits, as a sentence about a failure begins: "Trigger orders"."""

    @property
    @abstractmethod
    def awaited(self) -> str:
        """What is waited for: "messages on orders"."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return what this was made with, as plain values."""

    @abstractmethod
    def watch(self) -> AbstractAsyncContextManager[Look]:
        """Return what looks. It is entered anew after a failure, so that connections are looked up anew as well."""

    def longest_delay(self, error: Exception) -> int:
        """Return the most seconds to wait after this failure."""
        return LONGEST_SECONDS

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class's path and its arguments."""
        return path_of(type(self)), self.arguments()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and end the task."""
        self.log.info("Waiting for %s.", self.awaited)
        deadline = time.monotonic() + self.idle_after
        while time.monotonic() < deadline:
            try:
                found = await self._until_found(deadline)
            except FAILURES as error:
                if not self._heals(error):
                    # Such as a wrong password, or tables that are not there.
                    sentence = f"{self.subject}: {reason(error)} Nothing was changed."
                    self.log.error("%s", sentence)
                    yield TriggerEvent({FAILED: sentence})  # type: ignore[no-untyped-call]
                    return
                self._failures += 1
                delay = min(delay_seconds(self._failures), self.longest_delay(error))
                self.log.warning("%s Nothing was lost; looking again in %s s.", one_line(error), delay)
                await asyncio.sleep(delay)
                continue
            if found is not None:
                self.log.info("%s", found)
                yield TaskSuccessEvent()
                return
        self.log.info("Nothing came within %.0f s; this run ends without work.", self.idle_after)
        yield TaskSkippedEvent()

    def _heals(self, error: Exception) -> bool:
        return is_outage(error) or isinstance(error, self.healing)

    async def _until_found(self, deadline: float) -> str | None:
        async with self.watch() as look:
            while time.monotonic() < deadline:
                found = await look()
                self._failures = 0
                if found is not None:
                    return found
                await asyncio.sleep(self.poll_interval)
        return None


def path_of(waiting: type[WaitingTrigger]) -> str:
    """Return the path by which Airflow imports a trigger."""
    return f"{waiting.__module__}.{waiting.__qualname__}"
