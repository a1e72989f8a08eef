"""The database as a worker uses it: a connection that is reopened after a failure, results that always fit, counts."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import Event
from typing import Final, TypeVar
from uuid import UUID

import psycopg

from workorders.core.backoff import delay_seconds
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.items import Message
from workorders.core.postgres.connection import VALUE_ERRORS, Connection, connect, is_outage
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import Finished, RunResult

T = TypeVar("T")

Enqueue = Callable[[Connection, Sequence[Message]], object]
"""Writes messages to the outbox in the caller's transaction; rejects one with a ConfigurationError."""

MAX_OUTAGE_SECONDS: Final = 300.0
"""A transaction is retried for at most this long, even while the heartbeat succeeds."""
# Meanwhile the worker does nothing else: it reads no result and stops no process.
_MAX_DELAY_SECONDS: Final = 8

_MAX_ANSWER_SECONDS: Final = 330.0
"""The server ends a statement after 300 s, so an answer that takes longer will never arrive."""
# The runs of a worker are not recovered while its transaction is open, so one that hangs ends in the grace period.
_SESSION: Final = {"idle_in_transaction_session_timeout": "30s"}

MAX_FAILURES: Final = 20
_MAX_ERROR_CHARS: Final = 200


class RunSummary:
    """How the runs of a worker ended: counts by state, and the first runs that did not succeed."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.retried = 0
        self.failures: list[str] = []

    def add(self, results: Iterable[RunResult]) -> None:
        """Count results."""
        for result in results:
            self.states[result.state] += 1
            if result.state != "success" and len(self.failures) < MAX_FAILURES:
                words = " ".join((result.error or "").split())[:_MAX_ERROR_CHARS]
                self.failures.append(f"run {result.run_id} {result.state}: {result.error_type}: {words}")

    @property
    def total(self) -> int:
        """How many runs have ended."""
        return self.states.total()

    def __str__(self) -> str:
        """Return the counts as one clause."""
        counts = ", ".join(f"{count:,} {state}" for state, count in sorted(self.states.items()))
        again = f"; {self.retried:,} of them are retried" if self.retried else ""
        return f"{counts or 'no runs'}{again}"


class ResultStore:
    """Runs the transactions of one worker.

    Args:
        database_url: the work orders' database.
        worker_id: the worker.
        enqueue: writes the messages of runs that succeeded.
        may_continue: whether to wait for an answer, and to connect again after a failure.
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
        self.summary = RunSummary()
        self._url = database_url
        self._worker_id = worker_id
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

    def finish(self, results: Sequence[RunResult]) -> Finished:
        """Store how runs ended, with the messages of the successful ones, in one transaction, and count them.

        If Postgres or the outbox rejects a result, only its run fails.
        """
        try:
            finished = self.run_in_transaction(lambda connection: self._finish(connection, results))
        except (*VALUE_ERRORS, ConfigurationError, _NotEnqueuedError) as error:
            if len(results) == 1:
                if _is_bare(results[0]):
                    raise
                cause = error.__cause__ if isinstance(error, _NotEnqueuedError) else error
                return self.finish([_rejected(results[0], cause or error)])
            middle = len(results) // 2
            first, second = self.finish(results[:middle]), self.finish(results[middle:])
            return Finished(first.run_ids | second.run_ids, first.retried | second.retried)
        stored = finished.run_ids
        if len(stored) < len(results):  # The answer to an earlier try may have been lost.
            ids = [result.run_id for result in results]
            stored |= self.run_in_transaction(
                lambda connection: lifecycle.find_finished(connection, self._worker_id, ids)
            )
        self.summary.add(result for result in results if result.run_id in stored)
        self.summary.retried += len(finished.retried)
        return finished

    def close(self) -> None:
        """Close the connection; the next transaction opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _finish(self, connection: Connection, results: Sequence[RunResult]) -> Finished:
        finished = lifecycle.finish(connection, self._worker_id, results)
        messages = [
            message._replace(run_id=result.run_id)
            for result in results
            if result.run_id in finished.run_ids
            for message in result.messages
        ]
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
            self._connection = connect(
                self._url,
                autocommit=True,
                application_name="workorders execute",
                session=_SESSION,
                may_wait=lambda waited: waited < _MAX_ANSWER_SECONDS and self._may_continue(),
            )
        return self._connection


class _NotEnqueuedError(Exception):
    """Postgres rejected the messages of runs, for example because a permission is missing; the cause is its error."""


def _rejected(result: RunResult, error: BaseException) -> RunResult:
    """Return the result that replaces one that cannot be stored; if that is rejected as well, without its log."""
    first_time = result.state != "exception"
    message = (isinstance(error, psycopg.Error) and error.diag.message_primary) or str(error)
    # A message that can never be sent is the callable's error; what Postgres rejects is not.
    state: lifecycle.FinalState = "failed" if isinstance(error, ConfigurationError) else "exception"
    return replace(
        result,
        state=state,
        output=None,
        messages=(),
        error_type=type(error).__name__,
        error=f"What the run returned or published was rejected: {message}",
        log=result.log if first_time else "",
    )


def _is_bare(result: RunResult) -> bool:
    """Return whether a result contains nothing that the run returned, wrote or published."""
    return result.state == "exception" and result.output is None and not result.log and not result.messages
