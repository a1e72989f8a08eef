"""The limits of every session, which a pooler between client and server may refuse or drop.

They travel as the option `options` of a connection. RDS Proxy, Neon's pooler, and PgBouncer refuse a connection with
it; PgBouncer can be set to drop it. Then the role must have the limits, and a connection without them is closed again:
without `lock_timeout` a lock is waited for indefinitely, and without `idle_in_transaction_session_timeout` nothing ends
the transaction of a client that hangs.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import psycopg
from psycopg import conninfo

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
ASK_FOR_MISSING: Final = f"""
    SELECT current_user, array_agg(name) FILTER (WHERE is_missing AND current_setting('{_MARK}', true) IS NULL)
    FROM (VALUES
        ('lock_timeout', current_setting('lock_timeout') = '0'),
        ('statement_timeout', current_setting('statement_timeout') = '0'),
        ('idle_in_transaction_session_timeout', current_setting('idle_in_transaction_session_timeout') = '0'),
        ('default_transaction_isolation', current_setting('default_transaction_isolation') <> 'read committed'),
        ('timezone', current_setting('timezone') NOT IN ('UTC', 'Etc/UTC'))
    ) AS limits (name, is_missing)
"""
NO_LIMITS: Final = "has no session limits"
"""Part of the error, by which it is recognized as one that only a person can end."""
_OPTIONS_REFUSED: Final = re.compile("unsupported startup parameter|command-line options")


def startup_options(session: Mapping[str, str]) -> str:
    """Return the option `options` of libpq that gives a session its settings."""
    settings = {**SESSION_SETTINGS, **session, _MARK: "1"}
    escaped = {name: value.replace(" ", r"\ ") for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items())


def without_options(text: str, error: psycopg.OperationalError) -> str:
    """Return the connection string without options, if they are why a pooler refused it."""
    if not _OPTIONS_REFUSED.search(str(error)):
        raise error
    return conninfo.make_conninfo(text, options="")


def require_limits(row: tuple[Any, ...]) -> None:
    """Make sure that a session has limits, by the answer to `ASK_FOR_MISSING`."""
    user, missing = row
    if not missing:
        return
    statements = " ".join(f"ALTER ROLE {user} SET {name} = '{SESSION_SETTINGS[name]}';" for name in missing)
    raise psycopg.OperationalError(
        f"The pooler before Postgres refuses or drops the settings of a session, and the role {user} {NO_LIMITS}; "
        f"nothing was read or changed. Run once: {statements} Then let the pooler open new connections (PgBouncer: "
        "RECONNECT)."
    )
