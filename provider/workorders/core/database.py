"""Connections to the work orders' Postgres, with the limits that keep a dead client from holding a lock for ever."""

from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg import conninfo

from workorders.core.exceptions import ConfigurationError

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMA = "workorders"
"""Schema of all tables. It stands here and not beside them, for SQLAlchemy costs a Spark driver half a second."""

PREPARE_NOTHING: Final = None
"""No statement is prepared on the server: behind a pooler, the next transaction may come to a server without it."""

AWAY: Final = (
    psycopg.OperationalError,
    # What psycopg counts among Postgres' own faults, and what passes all the same. After a fail-over a connection that
    # was kept leads to a server that is the primary no more, and only reads.
    psycopg.errors.ReadOnlySqlTransaction,
    # Limits on a transaction that somebody may have set; they end the connection.
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
)
"""Errors that say that the database is away for now: asked again on a new connection, it may do it."""

_SESSION_SETTINGS = {
    # A partition's lock must not be waited for without end: the attempt that waits fails, says so and is retried.
    "lock_timeout": "30s",
    # A single statement here is at most one COPY of a chunk, before whose end half of the next one is read from its
    # source, or one scan by key.
    "statement_timeout": "300s",
    # Spark gives a consumer up to 120 s for one poll; a transaction that idles longer than this is dead.
    "idle_in_transaction_session_timeout": "300s",
    # The server's side of the connection. While it waits for the data of a COPY, nothing else tells it that the
    # client's machine is gone, and the system's own default is two hours. After a minute it ends the session, which
    # frees its locks. A Unix socket needs none of these and ignores them.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "60000",
    # jsonb and timestamps must mean the same wherever the client runs.
    "timezone": "UTC",
}
_KEEPALIVES = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    # Unacknowledged data ends the connection after a minute, in place of the kernel's quarter of an hour.
    "tcp_user_timeout": 60_000,
}


def connection_string(database_url: str, application_name: str, session: Mapping[str, str] | None = None) -> str:
    """Return `database_url` (a libpq URI or keyword string) with this package's session settings added.

    What the URL says itself wins, then what `session` says.

    Raises:
        ConfigurationError: libpq cannot read the URL. The text does not repeat the URL, for it may hold a password.
    """
    try:
        given = conninfo.conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:
        # Without its cause: libpq's own sentence quotes the URL, password included.
        raise ConfigurationError(
            "The database URL is not one that libpq reads; the form is postgresql://user:password@host:port/database."
        ) from None
    options = " ".join(f"-c {name}={value}" for name, value in {**_SESSION_SETTINGS, **(session or {})}.items())
    defaults = {**_KEEPALIVES, "client_encoding": "UTF8", "application_name": application_name}
    merged: dict[str, Any] = {**defaults, **given}
    merged["options"] = f"{options} {given.get('options') or ''}".strip()
    return conninfo.make_conninfo(**merged)


def connect(
    database_url: str,
    *,
    application_name: str = "workorders",
    autocommit: bool = False,
    session: Mapping[str, str] | None = None,
) -> Connection:
    """Open a connection; the caller closes it (it is a context manager).

    Raises:
        ConfigurationError: the URL has a wrong form.
        psycopg.OperationalError: the server cannot be reached or refuses.
    """
    return psycopg.connect(
        connection_string(database_url, application_name, session),
        autocommit=autocommit,
        prepare_threshold=PREPARE_NOTHING,
    )
