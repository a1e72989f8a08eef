"""What all that waits in the triggerer has in common: the trigger that looks again and again, and its sensor."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import (
    BaseTrigger,
    StartTriggerArgs,
    TaskSkippedEvent,
    TaskSuccessEvent,
    TriggerEvent,
)

from workorders.airflow.retries import next_try
from workorders.airflow.task_errors import FAILURES, readable, reason
from workorders.core.backoff import LONGEST_SECONDS, delay_seconds
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import is_outage

if TYPE_CHECKING:
    from airflow.sdk import Context

Look = Callable[[], Awaitable[str | None]]
"""Looks once, and returns why the wait is over; None when it is not."""

FAILED = "failed"
"""Key of the sentence in the event of a wait that failed."""


class CannotWaitError(WorkOrdersError):
    """What is waited for cannot be looked for, and waiting does not help: a person must."""


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


class WaitingSensor(BaseSensorOperator):
    """Waits by a `WaitingTrigger`: deferrable, and by default it starts in the triggerer without a worker.

    A class of it names its `trigger_class`, and ends its `__init__` with `start`.
    """

    trigger_class: ClassVar[type[WaitingTrigger]]
    ui_color = "#e8f1fa"
    # Of the class, for mapped tasks: they always start on a worker.
    start_from_trigger = False

    def start(self, *, from_trigger: bool) -> None:
        """Say where the task begins: in the triggerer, or on a worker that hands it over at once."""
        self.start_from_trigger = from_trigger
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=path_of(self.trigger_class),
            trigger_kwargs=self.arguments(),
            next_method="execute_complete",
        )

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the trigger, by what the fields hold now: templates may have been rendered."""

    def execute(self, context: "Context") -> None:
        """Hand the wait over to the triggerer; runs only when a worker started the task."""
        self.defer(trigger=self.trigger_class(**self.arguments()), method_name="execute_complete")

    @readable
    def execute_complete(self, context: "Context", event: Any = None) -> None:
        """Fail with the trigger's sentence and the time of the next try; else the trigger has ended the task itself.

        Without a failure this runs only in `dag.test()`.

        Raises:
            CannotWaitError: what is waited for cannot be looked for.
        """
        if isinstance(event, dict) and FAILED in event:
            raise CannotWaitError(f"{event[FAILED]} {next_try(self, context['ti'])}")


def path_of(waiting: type[WaitingTrigger]) -> str:
    """Return the path by which Airflow imports a trigger."""
    return f"{waiting.__module__}.{waiting.__qualname__}"
