"""Indexes of large tables: an upgrade builds them after its transaction, while work orders are created.

A package of migrations may have a file `indexes.sql`. It contains, under the name of each index, what follows
`CREATE INDEX CONCURRENTLY` and that name. The file is what the newest version needs, and no history: an index that is
missing, or that an interrupted build left invalid, is built.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Final, LiteralString

import psycopg

from workorders.core.exceptions import SchemaError, one_line
from workorders.core.postgres.connection import Connection, connect, drop_snapshot, fetch_row
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries

FILE: Final = "indexes.sql"
Indexes = Mapping[str, LiteralString]
"""What follows `CREATE INDEX CONCURRENTLY` and the name, by name."""

_NAME: Final = "workorders schema"
_LOOK_SECONDS: Final = 1.0
_NO_LIMITS: Final = {"lock_timeout": "0", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
_TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock(%(key)s)"
_VALID: Final = """
    SELECT relname
    FROM pg_class JOIN pg_index ON indexrelid = pg_class.oid
    WHERE relnamespace = to_regnamespace('workorders') AND relname = ANY (%s) AND indisvalid
"""


def load_indexes(packages: Iterable[str]) -> Indexes:
    """Return the indexes that packages of migrations name in their files."""
    found = [package for package in packages if files(package).joinpath(FILE).is_file()]
    return {name: body for package in found for name, body in load_queries(package, FILE).items()}


def statements(connection: Connection, indexes: Indexes) -> dict[str, tuple[LiteralString, LiteralString]]:
    """Return, by name, what removes the rest of an interrupted build and what builds an index, for those not valid.

    Neither statement can be in a transaction.
    """
    valid = {name for (name,) in connection.execute(_VALID, [list(indexes)])}
    return {
        name: (
            f"DROP INDEX CONCURRENTLY IF EXISTS workorders.{name}",
            f"CREATE INDEX CONCURRENTLY {name} {body.rstrip(';')}",
        )
        for name, body in indexes.items()
        if name not in valid
    }


def build(database_url: str, indexes: Indexes) -> None:
    """Build the indexes that are missing or invalid, one after the other; two processes take turns.

    Raises:
        SchemaError: one could not be built; those before it are kept.
    """
    if not indexes:
        return
    with _turn(database_url), connect(database_url, application_name=_NAME, autocommit=True, session=_NO_LIMITS) as own:
        for name, (drop, create) in statements(own, indexes).items():
            try:
                own.execute(drop)
                own.execute(create)
            except psycopg.Error as error:
                raise SchemaError(
                    f"The index {name} could not be built ({one_line(error)}); the tables are upgraded and can be "
                    f"used, but some queries are slow. Run `workorders db migrate` again, and connect to Postgres "
                    f"directly if a pooler is between."
                ) from error


@contextmanager
def _turn(database_url: str) -> Iterator[None]:
    """Hold the lock of building.

    In a transaction, because a lock of a session means nothing behind a pooler. It idles without a snapshot, for which
    a build would wait. A session that *waited* for the lock would have one, so it asks again and again.
    """
    with connect(database_url, application_name=_NAME, session=_NO_LIMITS) as connection:
        while not fetch_row(connection, _TRY_LOCK, {"key": AdvisoryLock.INDEX_BUILD.value})[0]:
            drop_snapshot(connection)
            time.sleep(_LOOK_SECONDS)
        drop_snapshot(connection)
        yield
