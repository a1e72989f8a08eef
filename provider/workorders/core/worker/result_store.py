"""The database as a worker uses it: a connection that is reopened after a failure, results that always fit, counts."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from threading import Event
from typing import Final, TypeVar
from uuid import UUID

import psycopg

from workorders.core.exceptions import ConfigurationError, KeysBusyError, one_line
from workorders.core.items import Message
from workorders.core.postgres.connection import (
    VALUE_ERRORS,
    Connection,
    connect,
    delay_seconds,
    is_outage,
    within_answer_seconds,
)
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import FinishedStep, RunResult

T = TypeVar("T")

Enqueue = Callable[[Connection, Sequence[Message]], object]
"""Writes messages to the outbox in the caller's transaction.

It raises a ConfigurationError for a message that can never be sent, and a KeysBusyError if others write to the keys.
"""

MAX_STORED_RUNS: Final = 500
MAX_STORED_BYTES: Final = 64 * 1024 * 1024
# Of them and of what is kept back. A statement can have 1 GB, and escapes need more than the values themselves.
_MAX_KEPT_RUNS: Final = 1_000

_RETRY_SECONDS: Final = 1.0

MAX_OUTAGE_SECONDS: Final = 300.0
"""A transaction is retried for at most this long, even while the heartbeat succeeds."""
# Meanwhile the worker does nothing else: it reads no result and stops no process.
_MAX_DELAY_SECONDS: Final = 8

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


def _order_of(result: RunResult) -> set[Hashable]:
    keys: set[Hashable] = {(message.to, message.key) for message in result.messages if message.key is not None}
    return keys if result.ordering_key is None else keys | {result.ordering_key}


class ResultStore:
    """Runs the transactions of one worker, and connects again after a failure as long as it `may_continue`."""

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
        #: Results that wait until another transaction ends, which has written to a key to which their runs publish.
        self.kept: list[RunResult] = []
        self._due_at = 0.0
        self._connection: Connection | None = None
        #: Whether the worker may own other runs than it knows, because an answer was lost, or by a retry.
        self.must_reconcile = False

    def run_in_transaction(self, run: Callable[[Connection], T], *, is_one_statement: bool = False) -> T:
        """Run a function in a transaction; after an outage repeat it on a new connection, for a limited time.

        One statement is a transaction without a BEGIN and a COMMIT, whose answers are waited for.

        Raises:
            psycopg.Error: the database failed permanently, was unavailable for too long, or was unavailable when the
                worker was asked to stop.
        """
        until = time.monotonic() + MAX_OUTAGE_SECONDS
        failures = 0
        while True:
            try:
                connection = self._connected()
                with nullcontext() if is_one_statement else connection.transaction():
                    return run(connection)
            except psycopg.Error as error:
                if not is_outage(error):
                    raise
                self.close()
                self.must_reconcile = True
                failures += 1
                delay = min(delay_seconds(failures), _MAX_DELAY_SECONDS)
                if self._stop.is_set() or not self._may_continue() or time.monotonic() + delay > until:
                    raise
                self._log(f"The database failed and is tried again in {delay} s: {one_line(error)}")
                self._stop.wait(delay)

    @property
    def is_due(self) -> bool:
        """Whether results are kept back, and it is time to try them again."""
        return len(self.kept) > 0 and time.monotonic() >= self._due_at

    @property
    def is_full(self) -> bool:
        """Whether so many results are kept back that no more runs should begin."""
        return len(self.kept) >= _MAX_KEPT_RUNS or sum(map(size_of, self.kept)) >= MAX_STORED_BYTES

    def finish(self, results: Sequence[RunResult]) -> None:
        """Store how runs ended, with the messages of the successful ones, and count them; kept ones too, when due.

        If another transaction has written to a key, the results of runs that publish to it are kept back, with later
        ones of their ordering keys. If Postgres or the outbox rejects a result, only its run fails.
        """
        due: list[RunResult] = []
        if self.is_due:
            due, self.kept = self.kept, []
        self._store([*due, *results])

    def store_steps(self, given: Sequence[FinishedStep]) -> list[tuple[FinishedStep, str | None]]:
        """Store steps, and return those of runs that the worker owns, with the reason if Postgres cannot hold one."""
        try:
            owned = self.run_in_transaction(
                lambda connection: lifecycle.store_steps(connection, self._worker_id, given), is_one_statement=True
            )
        except VALUE_ERRORS as error:
            if len(given) == 1:
                return [(given[0], error.diag.message_primary or type(error).__name__)]
            middle = len(given) // 2
            return self.store_steps(given[:middle]) + self.store_steps(given[middle:])
        return [(step, None) for step in given if step.run_id in owned]

    def close(self) -> None:
        """Close the connection; the next transaction opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _keep(self, results: Sequence[RunResult], busy: Collection[UUID] = ()) -> Sequence[RunResult]:
        """Keep back the results of busy runs, and return the others.

        Within an ordering key, and within a key of a topic, no result passes one that is kept back.
        """
        if not self.kept and not busy:
            return results
        reserved = set[Hashable]().union(*map(_order_of, self.kept))
        others = []
        for result in results:
            order = _order_of(result)
            if result.run_id not in busy and reserved.isdisjoint(order):
                others.append(result)
                continue
            if not self.kept:
                self._due_at = time.monotonic() + _RETRY_SECONDS
            self.kept.append(result)
            reserved |= order
        return others

    def _store(self, given: Sequence[RunResult], *, may_replace: bool = True) -> None:
        results = self._keep(given)
        if not results:
            return
        if len(results) > MAX_STORED_RUNS or (len(results) > 1 and sum(map(size_of, results)) > MAX_STORED_BYTES):
            self._store_halves(results)
            return
        try:
            finished = self.run_in_transaction(lambda connection: self._finish(connection, results))
        except KeysBusyError as error:
            self._store(self._keep(results, error.run_ids))
        except (*VALUE_ERRORS, ConfigurationError, _NotEnqueuedError) as error:
            if len(results) > 1:
                self._store_halves(results)
                return
            if not may_replace:
                raise
            cause = error.__cause__ if isinstance(error, _NotEnqueuedError) else error
            self._store([_rejected(results[0], cause or error)], may_replace=False)
        else:
            # A worker with a row owns them, or has finished them at an earlier try whose answer was lost.
            self.summary.add(results)
            self.summary.retried += sum(finished.values())
            # The later runs of an ordering key wait for its retry.
            if any(result.ordering_key is not None and finished.get(result.run_id) for result in results):
                self.must_reconcile = True

    def _store_halves(self, results: Sequence[RunResult]) -> None:
        middle = len(results) // 2
        self._store(results[:middle])
        self._store(results[middle:])

    def _finish(self, connection: Connection, results: Sequence[RunResult]) -> dict[UUID, bool]:
        finished = lifecycle.finish(connection, self._worker_id, results)
        messages = [
            message._replace(run_id=result.run_id)
            for result in results
            if result.run_id in finished
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
                may_wait=lambda waited: within_answer_seconds(waited) and self._may_continue(),
            )
        return self._connection


def size_of(result: RunResult) -> int:
    """Return about how many bytes a result has."""
    return len(result.output or b"") + len(result.log) + sum(len(message.value or b"") for message in result.messages)


class _NotEnqueuedError(Exception):
    """Postgres rejected the messages of runs, for example because a permission is missing; the cause is its error."""


def _rejected(result: RunResult, error: BaseException) -> RunResult:
    """Return the result that replaces one that cannot be stored.

    It is not retried: the function has succeeded, and another call would return or publish the same.
    """
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
        may_retry=False,
    )
