"""The bases of all waits: a trigger that probes, the sensor that defers to it, and what the waits of a triggerer share.

A hundred waiting tasks live in one event loop. With their own connections they would hold a hundred; shared, they
cost next to nothing: a few Postgres connections per database, one client per Kafka cluster.
"""

import asyncio
import inspect
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

import psycopg
from airflow.sdk import BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import (
    BaseTrigger,
    StartTriggerArgs,
    TaskSkippedEvent,
    TaskSuccessEvent,
    TriggerEvent,
)

from workorders.airflow.connections import async_database_url
from workorders.airflow.retries import describe_next_retry
from workorders.airflow.task_errors import EXPECTED_FAILURES, TaskFailedError, log_wrapped, reason
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection, connect, delay_seconds, is_outage

MAX_CONNECTIONS: Final = 4
"""Connections of a triggerer to one database, however many tasks wait: a slow statement holds up no other task."""
# A probe takes milliseconds. A slower one must return its connection soon: a lock that is not granted is requested
# again later, and a probe that takes this long fails its task, which is visible and is retried.
_SESSION: Final = {"statement_timeout": "30s", "lock_timeout": "5s"}
_MAX_ANSWER_SECONDS: Final = 60.0
"""Twice as long as a statement may take: behind a proxy that hangs, no answer would ever arrive."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
"""Something with an asynchronous `close`."""

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
    database_connection: str
    """Id of the Airflow connection of the database that `probe` looks into."""

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

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Open connections and give the probe; opened again after a failure, with connections looked up again.

        To look one up is a request to Airflow, and too slow for every probe.
        """
        url = await async_database_url(self.database_connection)
        async with shared(TriggererDatabase, url) as database:
            yield partial(self.probe, database)

    async def probe(self, database: "TriggererDatabase") -> str | None:
        """Look once, as `Probe`, where `open_probe` opens only the database."""
        raise NotImplementedError

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

    def execute(self, context: Context) -> None:
        """Defer to the triggerer; runs only if a worker started the task."""
        self.defer(trigger=self._make_trigger(), method_name="execute_complete")

    def execute_complete(self, context: Context, event: Any = None) -> None:
        """Fail with the trigger's sentence and the time of the next try.

        Without a failure this runs only in `dag.test()`, because the trigger ends the task.
        """
        if isinstance(event, dict) and FAILED in event:
            sentence = f"{event[FAILED]} {describe_next_retry(self, context['ti'])}"
            log_wrapped(self.log, sentence)
            raise TaskFailedError(sentence)


in_use: Final[dict[tuple[Callable[[str], Any], str], Any]] = {}
"""What the tasks of this process share now: Airflow makes each trigger on its own."""
_users: Final[Counter[tuple[Callable[[str], Any], str]]] = Counter()


@asynccontextmanager
async def shared(make: Callable[[str], R], settings: str) -> AsyncIterator[R]:
    """Share what `make` returns for these settings with all tasks of this process, and close it after its last use.

    So it contains only what the waiting tasks were given, and no password that was changed since.
    """
    key = (make, settings)
    if key not in in_use:
        in_use[key] = make(settings)
    _users[key] += 1
    try:
        yield in_use[key]
    finally:
        _users[key] -= 1
        if not _users[key]:
            del _users[key]
            await in_use.pop(key).close()


class TriggererDatabase:
    """A few connections that many coroutines share, opened when needed and again after a failure.

    Each is used in a thread, so that triggers and tasks call the same functions. The threads are not those of the event
    loop, which other triggers need: a database may hang.
    """

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._threads = ThreadPoolExecutor(MAX_CONNECTIONS, "workorders triggerer")
        self._idle: deque[Connection] = deque()
        self._is_closed = False

    async def run(self, ask: Callable[Concatenate[Connection, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call a function with a connection in autocommit mode; after a failure, the next call connects again."""
        call = partial(self._run, lambda connection: ask(connection, *arguments, **named))
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _run(self, ask: Callable[[Connection], T]) -> T:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            return ask(connection)
        except psycopg.Error:
            # It may lead to a server that is down, or that only reads after a fail-over.
            connection.close()
            raise
        finally:
            if not connection.closed:
                self._idle.append(connection)
            if self._is_closed:
                self._close_idle()

    def _connect(self) -> Connection:
        return connect(
            self._url,
            application_name="workorders triggerer",
            autocommit=True,
            session=_SESSION,
            may_wait=lambda waited: waited < _MAX_ANSWER_SECONDS and not self._is_closed,
        )

    async def close(self) -> None:
        """Close all connections; one that is in use is closed soon."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
