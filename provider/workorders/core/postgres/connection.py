"""Opens connections to the Postgres of the work orders, with limits so that a dead client loses its locks.

The limits travel as the option `options` of a connection. RDS Proxy, Neon's pooler, and PgBouncer refuse a connection
with it; PgBouncer can be set to drop it. Then the role must have the limits, and a connection without them is closed
again: without `lock_timeout` a lock is waited for indefinitely, and without `idle_in_transaction_session_timeout`
nothing ends the transaction of a client that hangs.

This module also tells which failures are outages, and how long to wait for the next try.
"""

import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.abc import PQGen
from psycopg.rows import class_row
from psycopg.waiting import Ready

from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.credentials import with_files, with_token

RV = TypeVar("RV")
T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
MayWait = Callable[[float], bool]
"""Asked several times per second of a wait for the server, with the seconds that it has lasted; False ends it."""

SCHEMA = "workorders"

NO_PREPARED_STATEMENTS: Final = None
"""No statement is prepared on the server: behind a pooler, the next transaction may come to a server without it."""

SESSION_SETTINGS: Final[Mapping[str, str]] = {
    # No attempt may wait for a partition's lock indefinitely: it fails, reports it and is retried.
    "lock_timeout": "30s",
    # A single statement here is at most one COPY of a chunk, before whose end half of the next one is read from its
    # source, or one scan by key.
    "statement_timeout": "300s",
    # Spark gives a consumer up to 120 s for one poll; a transaction that idles longer than this is dead.
    "idle_in_transaction_session_timeout": "300s",
    # A statement after a wait for a lock must see what was committed meanwhile.
    "default_transaction_isolation": "read committed",
    # jsonb and timestamps must mean the same wherever the client runs.
    "timezone": "UTC",
    # The server's side of the connection. While it waits for the data of a COPY, nothing else tells it that the
    # client's machine is gone, and the system's own default is two hours. After a minute it ends the session, which
    # frees its locks. A Unix socket needs none of these and ignores them; behind a pooler, the client is the pooler.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_MARK: Final = "workorders.session"
"""A setting of this package: where a session has it, its server got the others as well."""
_MISSING_LIMITS: Final = f"""
    SELECT current_user, array_agg(name) FILTER (WHERE is_missing AND current_setting('{_MARK}', true) IS NULL)
    FROM (VALUES
        ('lock_timeout', current_setting('lock_timeout') = '0'),
        ('statement_timeout', current_setting('statement_timeout') = '0'),
        ('idle_in_transaction_session_timeout', current_setting('idle_in_transaction_session_timeout') = '0'),
        ('default_transaction_isolation', current_setting('default_transaction_isolation') <> 'read committed'),
        ('timezone', current_setting('timezone') NOT IN ('UTC', 'Etc/UTC'))
    ) AS limits (name, is_missing)
"""
_NO_LIMITS: Final = "has no session limits"
"""Part of the error, by which it is recognized as one that only a person can end."""
_OPTIONS_REFUSED: Final = re.compile("unsupported startup parameter|command-line options")

VALUE_ERRORS: Final = (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex)
"""What Postgres raises if it can never store or write out a value."""

MISSING_TABLES: Final = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.InvalidSchemaName,
)
"""What Postgres raises where the tables are not those of this version."""

_CONNECTION_EXCEPTIONS: Final = "08"
_OUTAGES: Final = frozenset(
    {
        "57P01",  # the server shuts down
        "57P02",  # the server crashed
        "57P03",  # the server starts up, or recovers
        "57P05",  # the server ended a session that was idle for too long; a new one works
        "53300",  # too many connections
        "40P01",  # deadlock
        "55P03",  # a lock was not granted in time
        # After a fail-over a connection that was kept leads to a server that is no longer the primary, and only reads.
        "25006",
    }
)
# libpq gives no SQLSTATE for a connection that was refused, so only its text tells a wrong password from a server that
# is down. A server whose messages are translated is taken for an outage.
_CONNECTION_REFUSED: Final = re.compile(
    r"authentication failed for user"
    r"|no password supplied"
    r'|(?:role|database) "[^"]*" does not exist'
    r"|is not permitted to log in"
    r"|no pg_hba\.conf entry|pg_hba\.conf rejects"
    r"|permission denied for database"
    r"|server does not support SSL|certificate verify failed"
    rf"|{_NO_LIMITS}"
)

KEEPALIVES: Final[Mapping[str, Any]] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    # Unacknowledged data ends the connection after a minute, in place of the kernel's quarter of an hour.
    "tcp_user_timeout": 60_000,
}


class ClientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose waits for answers may be limited."""

    may_wait: MayWait | None = None
    """None waits for every answer. A proxy that hangs acknowledges what it never forwards, so TCP does not end that."""

    def wait(self, gen: PQGen[RV], *settings: Any, **named: Any) -> RV:
        """Wait for the server as long as `may_wait` allows."""
        return super().wait(gen if self.may_wait is None else self._bounded(gen, self.may_wait), *settings, **named)

    def _bounded(self, gen: PQGen[RV], may_wait: MayWait) -> PQGen[RV]:
        begun = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                waited = time.monotonic() - begun
                if ready == Ready.NONE and not may_wait(waited):
                    self.close()
                    raise psycopg.OperationalError(
                        f"the database did not answer for {waited:.0f} s; the connection was closed"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result


MAX_ANSWER_SECONDS: Final = 330.0
"""The server ends a statement after 300 s, so an answer that takes longer will never arrive."""


def within_answer_seconds(waited: float) -> bool:
    """Return whether an answer may still arrive: a `may_wait` for `connect`."""
    return waited < MAX_ANSWER_SECONDS


def connection_string(database_url: str, application_name: str, session: Mapping[str, str] | None = None) -> str:
    """Return `database_url` (a libpq URI or keyword string) with this package's session settings added.

    The settings of the URL win, then those of `session`.

    Raises:
        ConfigurationError: libpq cannot read the URL. The text does not repeat the URL, because that may contain a
            password.
    """
    try:
        given = conninfo.conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:
        # Without its cause: libpq's own sentence quotes the URL, password included.
        raise ConfigurationError(
            "The database URL is not one that libpq reads; nothing was connected; the form is "
            "postgresql://user:password@host:port/database."
        ) from None
    defaults = {**KEEPALIVES, "client_encoding": "UTF8", "application_name": application_name}
    merged: dict[str, Any] = {**defaults, **given}
    merged["options"] = f"{_startup_options(session or {})} {given.get('options') or ''}".strip()
    return conninfo.make_conninfo(**merged)


def connect(
    database_url: str,
    *,
    application_name: str = "workorders",
    autocommit: bool = False,
    session: Mapping[str, str] | None = None,
    may_wait: MayWait | None = None,
) -> ClientConnection:
    """Open a connection; the caller closes it (it is a context manager).

    Its login may have a token, its certificates may be texts, and a pooler may refuse its options. `may_wait` may end
    the wait for an answer, as an outage; otherwise only the server and the network do.

    Raises:
        ConfigurationError: the URL has a wrong form.
        psycopg.OperationalError: the server cannot be reached or refuses, or the sessions have no limits.
    """
    text = with_files(with_token(connection_string(database_url, application_name, session)))
    opened = partial(ClientConnection.connect, autocommit=True, prepare_threshold=NO_PREPARED_STATEMENTS)
    try:
        connection = opened(text)
    except psycopg.OperationalError as error:
        connection = opened(_without_options(text, error))
    connection.may_wait = may_wait
    try:
        _require_limits(connection)
        connection.autocommit = autocommit
    except BaseException:
        connection.close()
        raise
    return connection


def _startup_options(session: Mapping[str, str]) -> str:
    """Return the option `options` of libpq that gives a session its settings."""
    settings = {**SESSION_SETTINGS, **session, _MARK: "1"}
    escaped = {name: value.replace(" ", r"\ ") for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items())


def _without_options(text: str, error: psycopg.OperationalError) -> str:
    """Return the connection string without options, if they are why a pooler refused it."""
    if not _OPTIONS_REFUSED.search(str(error)):
        raise error
    return conninfo.make_conninfo(text, options="")


def _require_limits(connection: Connection) -> None:
    """Make sure that a session has limits."""
    user, missing = fetch_row(connection, _MISSING_LIMITS, {})
    if not missing:
        return
    statements = " ".join(f"ALTER ROLE {user} SET {name} = '{SESSION_SETTINGS[name]}';" for name in missing)
    raise psycopg.OperationalError(
        f"The pooler before Postgres refuses or drops the settings of a session, and the role {user} {_NO_LIMITS}; "
        f"nothing was read or changed. Run once: {statements} Then let the pooler open new connections (PgBouncer: "
        "RECONNECT)."
    )


def fetch_row(connection: Connection, query: LiteralString, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the first row of a query that always returns one."""
    row = connection.execute(query, arguments).fetchone()
    if row is None:
        raise LookupError(f"no row of the query that begins with: {query[:80]}")
    return row


def list_rows(
    connection: Connection, kind: type[T], query: LiteralString, arguments: Mapping[str, Any] | None = None
) -> list[T]:
    """Return the rows of a query as objects of a class whose fields have the names of the columns."""
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query, arguments).fetchall()


def find_row(connection: Connection, kind: type[T], query: LiteralString, arguments: Mapping[str, Any]) -> T | None:
    """Return the first row of a query as `list_rows` does; None if there is no row."""
    return next(iter(list_rows(connection, kind, query, arguments)), None)


def transaction_time(connection: Connection) -> datetime:
    """Return when the transaction began, by the clock of the database."""
    time: datetime = fetch_row(connection, "SELECT now()", {})[0]
    return time


def is_outage(error: BaseException) -> bool:
    """Return whether the failure of the database is temporary, so that a retry on a new connection can succeed.

    It lists the temporary errors. psycopg's `OperationalError` contains permanent ones too: each retry fails again with
    a full disk, a value that is too large, or a statement that takes too long.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is not None:
        return error.sqlstate.startswith(_CONNECTION_EXCEPTIONS) or error.sqlstate in _OUTAGES
    return isinstance(error, psycopg.OperationalError) and not is_refused_connection(error)


MAX_DELAY_SECONDS: Final = 60
"""The longest delay before the next try during an outage or a stall."""
_DOUBLINGS_TO_LONGEST: Final = 6


def delay_seconds(failures: int) -> int:
    """Return the delay before the next try during an outage or a stall, after a number of failures in a row.

    It is 1, 2, 4 ... 60 seconds, until a try succeeds. The exponent is bounded before the power is taken, so that the
    thousandth failure overflows nothing. Runs that failed are retried by the policy of their workflow instead:
    `runs/sql/finish_and_retry.sql`.
    """
    doublings = min(max(failures - 1, 0), _DOUBLINGS_TO_LONGEST)
    return min(MAX_DELAY_SECONDS, 1 << doublings)


def is_refused_connection(error: BaseException) -> bool:
    """Return whether a server answered that this user or database can never connect: a person must change something."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None and _CONNECTION_REFUSED.search(str(error)) is not None


def error_code(error: psycopg.Error) -> str:
    """Return the code under which the reference explains a failure of the database."""
    if is_outage(error):
        return "WO-POSTGRES-UNAVAILABLE"
    if is_refused_connection(error):
        return "WO-POSTGRES-REFUSED"
    if isinstance(error, (*MISSING_TABLES, psycopg.errors.InsufficientPrivilege)):
        return "WO-POSTGRES-TABLES"
    return "WO-POSTGRES-FAILED"
