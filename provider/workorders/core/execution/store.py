"""The database as a group uses it: a connection that is opened again when it breaks, and results that always fit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar
from uuid import UUID

import psycopg

from workorders.core import runs
from workorders.core.database import AWAY, Connection, connect
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.execution.jobs import Message
from workorders.core.runs import Finished, RunResult

T = TypeVar("T")

Enqueue = Callable[[Connection, Sequence[Message]], object]
"""Puts messages into the outbox in the caller's transaction; refuses with a ConfigurationError."""

_AGAIN_SECONDS: Final = 1.0
# What Postgres says of a value that it cannot hold.
_VALUE_ERRORS = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)

Ended = tuple[RunResult, tuple[Message, ...]]


class Store:
    """Asks and writes for one group.

    Args:
        database_url: the work orders' database.
        group_id: the group.
        enqueue: for the messages of runs that have succeeded.
        may_go_on: whether it is worth while to connect again after a failure.
        say: is told of failures.
    """

    def __init__(
        self,
        database_url: str,
        group_id: UUID,
        *,
        enqueue: Enqueue,
        may_go_on: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._url = database_url
        self._group_id = group_id
        self._enqueue = enqueue
        self._may_go_on = may_go_on
        self._say = say
        self._connection: Connection | None = None
        #: Whether the connection broke, and what it was asked for last may have been done or not.
        self.in_doubt = False

    def ask(self, question: Callable[[Connection], T]) -> T:
        """Ask in a transaction; again on a new connection when it breaks, as long as that is worth while.

        Raises:
            psycopg.Error: the database failed, or was away for too long.
        """
        while True:
            try:
                with self._connected().transaction():
                    return question(self._connected())
            except AWAY as error:
                self.close()
                self.in_doubt = True
                if not self._may_go_on():
                    raise
                self._say(f"The database failed and is asked again: {one_line(error)}")
                time.sleep(_AGAIN_SECONDS)

    def finish(self, ended: Sequence[Ended]) -> tuple[Finished, list[RunResult]]:
        """Write down how runs ended, with the messages of the successful ones, in one transaction.

        What Postgres or the outbox refuses becomes a failure of its run alone. Returns as well the results as they
        were written.
        """
        try:
            finished = self.ask(lambda connection: self._finish(connection, ended))
        except (*_VALUE_ERRORS, ConfigurationError) as error:
            if len(ended) == 1:
                return self.finish([(_refused(ended[0][0], error), ())])
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
        finished = runs.finish(connection, self._group_id, [result for result, _ in ended])
        messages = [message for result, sent in ended if sent and result.run_id in finished.run_ids for message in sent]
        if messages:
            self._enqueue(connection, messages)
        return finished

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._url, autocommit=True, application_name="workorders execute")
        return self._connection


def _refused(result: RunResult, error: Exception) -> RunResult:
    """Return the result that stands for one that cannot be kept; a second refusal leaves nothing to refuse."""
    first_time = result.state not in {"exception"}
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else str(error)
    # The callable asked for a message that can never be sent; what Postgres refuses, it could not know.
    state: runs.FinalState = "failed" if isinstance(error, ConfigurationError) else "exception"
    return replace(
        result,
        state=state,
        output=None,
        error_type=type(error).__name__,
        error=f"What the run returned or published was refused: {said}",
        log=result.log if first_time else "",
    )


def _both(first: Finished, second: Finished) -> Finished:
    return Finished(first.run_ids | second.run_ids, first.retried | second.retried, first.released | second.released)
