"""The bases of all waits: a trigger that probes until there is something to do, and the sensor that defers to it."""

import asyncio
import inspect
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
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

from workorders.airflow.retries import describe_next_retry
from workorders.airflow.task_errors import EXPECTED_FAILURES, TaskFailedError, log_wrapped, reason
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import delay_seconds, is_outage

if TYPE_CHECKING:
    from airflow.sdk import Context

Probe = Callable[[], Awaitable[str | None]]
"""Looks once, and returns why the wait has ended; None while it has not."""

FAILED = "failed"
"""Key of the sentence in the event of a wait that failed."""


class PollingTrigger(BaseTrigger):
    """Probes until there is something to do, and ends the task in the triggerer, without starting a worker.

    Only a failure that does not pass by itself goes to a worker, because only a worker asks the task's retry policy.

    What is taken is decided later, in the database. So two triggerers may run it at once, and another one may start it
    again. A system that is unavailable is waited for, with back-off and a line in the log.

    A subclass keeps each argument of its constructor as an attribute of the same name. `subject` and `waiting_for` are
    parts of sentences, such as "Trigger orders" and "messages on orders". The wait ends without a result after
    `idle_after` seconds, so that the Dag run ends.
    """

    transient_errors: ClassVar[tuple[type[Exception], ...]] = (AirflowRuntimeError,)
    """Failures that may pass, like an outage of the database: the next probe comes after a delay."""

    def __init__(self, *, subject: str, waiting_for: str, poll_interval: float, idle_after: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.subject = subject
        self.waiting_for = waiting_for
        self.poll_interval = poll_interval
        self.idle_after = idle_after
        self._failures = 0
        self._is_waiting = False

    def found_event(self, found: str) -> TriggerEvent:
        """Return the event for what a probe has found: it ends the task."""
        return TaskSuccessEvent()

    @abstractmethod
    def open_probe(self) -> AbstractAsyncContextManager[Probe]:
        """Open connections and return the probe; opened again after a failure, with connections looked up again."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class's path and the arguments of its constructor."""
        parameters = inspect.signature(type(self)).parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    def log_wait(self) -> bool:
        """Log once what the task waits for, and return whether it was now."""
        if self._is_waiting:
            return False
        self.log.info("Waiting for %s.", self.waiting_for)
        self._is_waiting = True
        return True

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and end the task."""
        deadline = time.monotonic() + self.idle_after
        while time.monotonic() < deadline:
            try:
                found = await self._until_found(deadline)
            except EXPECTED_FAILURES as error:
                if not is_outage(error) and not isinstance(error, self.transient_errors):
                    # Such as a wrong password, or missing tables.
                    sentence = f"{self.subject}: {reason(error)} Nothing was changed."
                    self.log.error("%s", sentence)
                    yield TriggerEvent({FAILED: sentence})  # type: ignore[no-untyped-call]
                    return
                self._failures += 1
                delay = delay_seconds(self._failures)
                self.log.warning("%s Nothing was lost; the next look is in %s s.", one_line(error), delay)
                await asyncio.sleep(delay)
                continue
            if found is not None:
                self.log.info("%s", found)
                yield self.found_event(found)
                return
        self.log.info("Nothing came within %.0f s; this run ends without work.", self.idle_after)
        yield TaskSkippedEvent()

    async def _until_found(self, deadline: float) -> str | None:
        async with self.open_probe() as probe:
            while time.monotonic() < deadline:
                found = await probe()
                self._failures = 0
                if found is not None:
                    return found
                # After the first probe, which may record what the wait begins with.
                self.log_wait()
                await asyncio.sleep(self.poll_interval)
        return None


class PollingSensor(BaseSensorOperator):
    """Waits by a `PollingTrigger`.

    Args:
        trigger: probes; the triggerer makes it again from its arguments.
        start_from_trigger: whether the task starts in the triggerer; otherwise a worker starts it and defers.
    """

    ui_color = "#e8f1fa"
    # For mapped tasks, which read the class and always start on a worker.
    start_from_trigger = False

    def __init__(self, *, trigger: PollingTrigger, start_from_trigger: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        path, arguments = trigger.serialize()
        self._make_trigger = partial(type(trigger), **arguments)
        self.start_from_trigger = start_from_trigger
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=path, trigger_kwargs=arguments, next_method="execute_complete"
        )

    def execute(self, context: "Context") -> None:
        """Defer to the triggerer; runs only if a worker started the task."""
        self.defer(trigger=self._make_trigger(), method_name="execute_complete")

    def execute_complete(self, context: "Context", event: Any = None) -> None:
        """Fail with the trigger's sentence and the time of the next try.

        Without a failure this runs only in `dag.test()`, because the trigger ends the task.
        """
        if isinstance(event, dict) and FAILED in event:
            sentence = f"{event[FAILED]} {describe_next_retry(self, context['ti'])}"
            log_wrapped(self.log, sentence)
            raise TaskFailedError(sentence)
