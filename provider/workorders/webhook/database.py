"""The connections of the webhooks' server to one database, and what its callers get while the database fails."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import ClientConnection, Connection, connect, is_outage
from workorders.webhook.refusals import TryAgainError

_LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5
_CONNECT_SECONDS: Final = 5
"""A caller waits this long; many callers do not wait for the default of ten."""
_MAX_ANSWER_SECONDS: Final = 60
"""A lock is waited for up to 30 s. Behind a proxy that hangs, a call without a limit would keep its thread for good."""
NOT_TAKEN: Final = "Probably nothing was created; retry with the same Idempotency-Key if there is one."


class Database:
    """One database, with a connection for each thread that needs one at the same time.

    A psycopg_pool connects in its own thread while its callers wait. With one, a request during an outage was refused
    after the pool's time limit (2 s) instead of 1 ms, and the first ones after it took 1 s instead of 50 ms. `url` is
    asked for each new connection, so that a changed one counts.
    """

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._idle: deque[ClientConnection] = deque()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection in autocommit mode."""
        connection = self._take()
        try:
            yield connection
        except WorkOrdersError:  # our own refusal: the connection is intact
            self._idle.append(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def _take(self) -> ClientConnection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                url = make_conninfo(self._url(), connect_timeout=_CONNECT_SECONDS)
                connection = connect(
                    url, application_name="workorders webhook", autocommit=True, may_wait=_within(_CONNECT_SECONDS)
                )
            else:
                try:
                    # Before any work: a later failure could not be distinguished from one of the commit.
                    connection.may_wait = _within(_CONNECT_SECONDS)
                    connection.execute("SELECT 1")
                except psycopg.Error:
                    connection.close()
                    continue
            connection.may_wait = _within(_MAX_ANSWER_SECONDS)
            return connection


def _within(seconds: float) -> Callable[[float], bool]:
    return lambda waited: waited < seconds


def try_again(what: str, error: Exception) -> TryAgainError:
    """Return what a caller gets while the database fails, after a line in the log."""
    code, problem = ("not-set-up", "The database is not ready for this webhook.")
    if is_outage(error):
        code, problem = ("database-unavailable", "The database is unavailable.")
    _LOG.error("%s: %s %s", what, problem, one_line(error))
    return TryAgainError(code, f"{problem} {NOT_TAKEN}", seconds=RETRY_SECONDS)
