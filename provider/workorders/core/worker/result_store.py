"""The database as a worker uses it: a connection that is reopened after a failure, and results that always fit."""

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
"""Writes messages to the outbox in the caller's transaction; rejects one with a ConfigurationError."""

MAX_OUTAGE_SECONDS: Final = 300.0
"""A transaction is retried for at most this long, even while the heartbeat succeeds."""
# Meanwhile the worker does nothing else: it reads no result and stops no process.
_MAX_DELAY_SECONDS: Final = 8

EndedRun = tuple[RunResult, tuple[Message, ...]]


class ResultStore:
    """Runs the transactions of one worker.

    Args:
        database_url: the work orders' database.
        worker_id: the worker.
        enqueue: writes the messages of runs that succeeded.
        may_continue: whether to connect again after a failure.
        stop: ends the wait for an unavailable database.
        log: receives a line for each failure.
    """

    def __init__(
        self,
        database_url: str,
        worker_id: UUID,
        *,
        enqueue: Enqueue,
        may_continue: Callable[[], bool],
        stop: Event,
        log: Callable[[str], None],
    ) -> None:
        self._url = database_url
        self._group_id = worker_id
        self._enqueue = enqueue
        self._may_continue = may_continue
        self._stop = stop
        self._log = log
        self._connection: Connection | None = None
        #: Whether the connection broke, so that the last transaction may have been committed or not.
        self.outcome_unknown = False

    def run_in_transaction(self, run: Callable[[Connection], T]) -> T:
        """Run a function in a transaction; after an outage repeat it on a new connection, for a limited time.

        Raises:
            psycopg.Error: the database failed permanently, was unavailable for too long, or was unavailable when the
                worker was asked to stop.
        """
        until = time.monotonic() + MAX_OUTAGE_SECONDS
        failures = 0
        while True:
            try:
                with self._connected().transaction():
                    return run(self._connected())
            except psycopg.Error as error:
                if not is_outage(error):
                    raise
                self.close()
                self.outcome_unknown = True
                failures += 1
                delay = min(delay_seconds(failures), _MAX_DELAY_SECONDS)
                if self._stop.is_set() or not self._may_continue() or time.monotonic() + delay > until:
                    raise
                self._log(f"The database failed and is tried again in {delay} s: {one_line(error)}")
                self._stop.wait(delay)

    def finish(self, ended: Sequence[EndedRun]) -> tuple[Finished, list[RunResult]]:
        """Store how runs ended, with the messages of the successful ones, in one transaction.

        If Postgres or the outbox rejects a result, only its run fails. Also returns the results as they were stored.
        """
        try:
            finished = self.run_in_transaction(lambda connection: self._finish(connection, ended))
        except (*VALUE_ERRORS, ConfigurationError, _NotEnqueuedError) as error:
            if len(ended) == 1:
                if _is_bare(*ended[0]):
                    raise
                cause = error.__cause__ if isinstance(error, _NotEnqueuedError) else error
                return self.finish([(_rejected(ended[0][0], cause or error), ())])
            middle = len(ended) // 2
            first, first_results = self.finish(ended[:middle])
            second, second_results = self.finish(ended[middle:])
            return _both(first, second), first_results + second_results
        return finished, [result for result, _ in ended]

    def close(self) -> None:
        """Close the connection; the next transaction opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _finish(self, connection: Connection, ended: Sequence[EndedRun]) -> Finished:
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
    """Postgres rejected the messages of runs, for example because a permission is missing; the cause is its error."""


def _rejected(result: RunResult, error: BaseException) -> RunResult:
    """Return the result that replaces one that cannot be stored; if that is rejected as well, without its log."""
    first_time = result.state not in {"exception"}
    message = (isinstance(error, psycopg.Error) and error.diag.message_primary) or str(error)
    # A message that can never be sent is the callable's error; what Postgres rejects is not.
    state: lifecycle.FinalState = "failed" if isinstance(error, ConfigurationError) else "exception"
    return replace(
        result,
        state=state,
        output=None,
        error_type=type(error).__name__,
        error=f"What the run returned or published was rejected: {message}",
        log=result.log if first_time else "",
    )


def _is_bare(result: RunResult, messages: tuple[Message, ...]) -> bool:
    """Return whether a result contains nothing that the run returned, wrote or published."""
    return result.state == "exception" and result.output is None and not result.log and not messages


def _both(first: Finished, second: Finished) -> Finished:
    return Finished(first.run_ids | second.run_ids, first.retried | second.retried, first.released | second.released)
