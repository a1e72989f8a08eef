"""The database as a group uses it: a connection that is opened again when it breaks, and results that always fit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Event
from typing import Final, TypeVar
from uuid import UUID

import psycopg

from workorders.core.backoff import delay_seconds
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.postgres.connection import VALUE_ERRORS, Connection, connect, is_outage
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import Finished, RunResult
from workorders.core.worker.model import Message

T = TypeVar("T")

Enqueue = Callable[[Connection, Sequence[Message]], object]
"""Puts messages into the outbox in the caller's transaction; refuses with a ConfigurationError."""

MAX_OUTAGE_SECONDS: Final = 300.0
"""One question is asked again for at most this long, even if the group's heartbeat is answered meanwhile."""
# Nothing else is done while a question is asked again: no result is taken from the processes, and none is stopped.
_MAX_DELAY_SECONDS: Final = 8

Ended = tuple[RunResult, tuple[Message, ...]]


class Store:
    """Asks and writes for one group.

    Args:
        database_url: the work orders' database.
        group_id: the group.
        enqueue: for the messages of runs that have succeeded.
        may_go_on: whether it is worth while to connect again after a failure.
        stop: ends the wait for a database that is away, after one more try.
        say: is told of failures.
    """

    def __init__(
        self,
        database_url: str,
        group_id: UUID,
        *,
        enqueue: Enqueue,
        may_go_on: Callable[[], bool],
        stop: Event,
        say: Callable[[str], None],
    ) -> None:
        self._url = database_url
        self._group_id = group_id
        self._enqueue = enqueue
        self._may_go_on = may_go_on
        self._stop = stop
        self._say = say
        self._connection: Connection | None = None
        #: Whether the connection broke, and what it was asked for last may have been done or not.
        self.in_doubt = False

    def ask(self, question: Callable[[Connection], T]) -> T:
        """Ask in a transaction; after an outage again on a new connection, as long as that is worth while.

        Raises:
            psycopg.Error: the database failed in a way that does not pass, was away for too long, or was away when the
                group was told to stop.
        """
        until = time.monotonic() + MAX_OUTAGE_SECONDS
        failures = 0
        while True:
            try:
                with self._connected().transaction():
                    return question(self._connected())
            except psycopg.Error as error:
                if not is_outage(error):
                    raise
                self.close()
                self.in_doubt = True
                failures += 1
                delay = min(delay_seconds(failures), _MAX_DELAY_SECONDS)
                if self._stop.is_set() or not self._may_go_on() or time.monotonic() + delay > until:
                    raise
                self._say(f"The database failed and is asked again in {delay} s: {one_line(error)}")
                self._stop.wait(delay)

    def finish(self, ended: Sequence[Ended]) -> tuple[Finished, list[RunResult]]:
        """Write down how runs ended, with the messages of the successful ones, in one transaction.

        What Postgres or the outbox refuses becomes a failure of its run alone. Returns as well the results as they
        were written.
        """
        try:
            finished = self.ask(lambda connection: self._finish(connection, ended))
        except (*VALUE_ERRORS, ConfigurationError, _NotEnqueuedError) as error:
            if len(ended) == 1:
                if _is_bare(*ended[0]):
                    raise
                said = error.__cause__ if isinstance(error, _NotEnqueuedError) else error
                return self.finish([(_refused(ended[0][0], said or error), ())])
            middle = len(ended) // 2
            first, first_results = self.finish(ended[:middle])
            second, second_results = self.finish(ended[middle:])
            return _both(first, second), first_results + second_results
        return finished, [result for result, _ in ended]

    def close(self) -> None:
        """Close the connection; the next question opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _finish(self, connection: Connection, ended: Sequence[Ended]) -> Finished:
        finished = lifecycle.finish(connection, self._group_id, [result for result, _ in ended])
        messages = [message for result, sent in ended if sent and result.run_id in finished.run_ids for message in sent]
        if messages:
            try:
                self._enqueue(connection, messages)
            except psycopg.Error as error:
                if is_outage(error):
                    raise
                raise _NotEnqueuedError from error
        return finished

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, autocommit=True, application_name="workorders execute")
        return self._connection


class _NotEnqueuedError(Exception):
    """Postgres refused the messages of runs, such as for a missing permission; its cause is what Postgres said."""


def _refused(result: RunResult, error: BaseException) -> RunResult:
    """Return the result that stands for one that cannot be kept; a further refusal leaves it bare."""
    first_time = result.state not in {"exception"}
    said = (isinstance(error, psycopg.Error) and error.diag.message_primary) or str(error)
    # The callable asked for a message that can never be sent; what Postgres refuses, it could not know.
    state: lifecycle.FinalState = "failed" if isinstance(error, ConfigurationError) else "exception"
    return replace(
        result,
        state=state,
        output=None,
        error_type=type(error).__name__,
        error=f"What the run returned or published was refused: {said}",
        log=result.log if first_time else "",
    )


def _is_bare(result: RunResult, messages: tuple[Message, ...]) -> bool:
    """Return whether nothing is left of what a run returned, wrote and published, so that none of it is to blame."""
    return result.state == "exception" and result.output is None and not result.log and not messages


def _both(first: Finished, second: Finished) -> Finished:
    return Finished(first.run_ids | second.run_ids, first.retried | second.retried, first.released | second.released)
