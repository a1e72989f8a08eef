"""The database schema of all packages together: upgrade it, find out its version, and whether its sequences are ahead.

Every package with tables has a branch of revisions, named like the package. The version of the schema is the newest
revision of each branch.

Sequences of identity columns are behind their rows after a switch by logical replication, which copies none. New rows
would then get numbers that exist, or messages of the outbox numbers before those of older ones.
"""

from importlib.metadata import entry_points
from importlib.resources import files
from io import StringIO
from typing import Any, Final

from workorders.core.exceptions import SchemaError
from workorders.core.postgres.connection import SCHEMA, Connection, connect
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries

OWNER: Final = "workorders_owner"
"""The role that owns the tables, if `upgrade` has created the roles."""
MIN_POSTGRES: Final = 16
"""Oldest version of PostgreSQL that the tables work with."""
MIGRATIONS_GROUP: Final = "workorders.migrations"
"""Entry points: each names a branch, and the package that contains its revisions."""
_QUERIES: Final = load_queries("workorders.core", "sql/schema.sql")
# Another upgrade may take longer than any lock is waited for, and an index on a large table longer than any other
# statement lasts. In the transaction, because it must win over the URL's settings.
_LOCKED: Final = (
    "SET LOCAL lock_timeout = 0",
    "SET LOCAL statement_timeout = 0",
    f"SELECT pg_advisory_xact_lock({AdvisoryLock.SCHEMA_UPGRADE.value})",
)


def upgrade(database_url: str, *, with_roles: bool = False) -> str:
    """Upgrade the tables to the newest version, in one transaction, and return that version.

    New tables belong to the owner of the schema, if the user may act as that role. Then advance sequences that are
    behind their rows. Safe to call from several processes at once: the others wait and then find nothing to do.

    Args:
        database_url: of a user who may create the schema and, with roles that do not exist, roles.
        with_roles: whether to create the owner, the writer, and the reader, and to grant them their rights.

    Raises:
        SchemaError: a newer version of this package has upgraded the tables, and nothing was changed.
    """
    with connect(database_url, application_name="workorders schema") as connection:
        for statement in _LOCKED:
            connection.execute(statement)
        if text := _missing_sql(connection, with_roles=with_roles):
            connection.execute(text.encode())
        connection.commit()
        advance_sequences(connection)
    return newest()


def upgrade_sql(database_url: str, *, with_roles: bool = False) -> str:
    """Return the SQL of the upgrade that the database needs; empty if it needs none, and no roles are wanted."""
    with connect(database_url, application_name="workorders schema") as connection:
        text = _missing_sql(connection, with_roles=with_roles)
    return "\n".join(["BEGIN;", *(f"{statement};" for statement in _LOCKED), text, "COMMIT;\n"]) if text else ""


def _missing_sql(connection: Connection, *, with_roles: bool) -> str:
    """Return the SQL of the roles that are wanted, of the schema, and of the revisions that are missing."""
    found = _revisions_in(connection)
    _require_known(found)
    is_old = _version(found) != newest()
    if not is_old and not with_roles:
        return ""
    owner = connection.execute(_QUERIES["find_owner"]).fetchone()
    name, acts_as_owner = (OWNER, with_roles) if owner is None else owner
    return "\n".join(
        (
            *([_QUERIES["create_roles"]] if with_roles else [f"CREATE SCHEMA {SCHEMA};"] if owner is None else []),
            # So that its owner creates what follows.
            *([f"SET LOCAL ROLE {name};"] if acts_as_owner else []),
            *([_sql_since(found)] if is_old else []),
            *([_QUERIES["grant_rights"]] if with_roles else []),
        )
    )


def _sql_since(found: set[str]) -> str:
    """Return the SQL of the revisions after these."""
    from alembic.config import Config  # noqa: PLC0415 - only an upgrade needs it, and it takes half a second to import
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    branches, text = _branches(), StringIO()
    folders = [str(files(package)) for package in branches.values()]
    script = ScriptDirectory(str(files("workorders.core.migrations")), version_locations=folders)

    # Branch by branch, as alembic's own command does for one: the tables of a branch refer to those of the core.
    def steps(revisions: Any, _: object) -> list[Any]:
        return [step for branch in branches for step in script._upgrade_revs(f"{branch}@head", revisions)]

    starting = tuple(sorted(found)) or None
    with EnvironmentContext(Config(output_buffer=text), script, fn=steps, as_sql=True, starting_rev=starting):
        script.run_env()
    return text.getvalue()


def find_missing_rights(connection: Connection) -> list[str]:
    """Return what the user of a connection lacks to create and execute work orders, such as `runs: INSERT, UPDATE`."""
    return [str(right) for (right,) in connection.execute(_QUERIES["find_missing_rights"])]


def current(database_url: str) -> str | None:
    """Return the version that the database is at; None when it was never upgraded."""
    with connect(database_url, application_name="workorders schema") as connection:
        return _version(_revisions_in(connection)) or None


def newest() -> str:
    """Return the version that this package needs."""
    return _version({max(known) for known in _known_revisions()})


def require_postgres(connection: Connection) -> str:
    """Return the version of the server."""
    version = connection.info.server_version // 10_000
    if version < MIN_POSTGRES:
        raise SchemaError(
            f"The server is PostgreSQL {version}, and the tables need {MIN_POSTGRES} or newer; nothing was changed; "
            f"upgrade the server, or give the URL of another one."
        )
    return str(connection.info.parameter_status("server_version") or version).partition(" ")[0]


def require_newest(database_url: str) -> None:
    """Raise unless the database is at the version that this package needs, and its sequences are ahead of its rows."""
    with connect(database_url, application_name="workorders schema") as connection:
        found = _revisions_in(connection)
        _require_known(found)
        if _version(found) != newest():
            raise SchemaError(
                f"The database's tables are at version {_version(found) or 'none'} and this package needs {newest()}; "
                f"nothing was changed; run `workorders db migrate`."
            )
        require_sequences_ahead(connection)


def find_sequences_behind(connection: Connection) -> list[tuple[str, str, int, int]]:
    """Return the sequences that are behind their rows, of those that the user may read.

    For each its table, its name, its last number, and the highest number in a row.
    """
    # A separate transaction, so that none is left open.
    with connection.transaction():
        numbers = [query for (query,) in connection.execute(_QUERIES["sequence_queries"])]
        if not numbers:
            return []
        query = f"SELECT * FROM ({' UNION ALL '.join(numbers)}) AS found WHERE highest > last"
        return connection.execute(query.encode()).fetchall()


def advance_sequences(connection: Connection) -> None:
    """Advance the sequences that are behind their rows to the highest number there."""
    for _, sequence, _, highest in find_sequences_behind(connection):
        connection.execute("SELECT setval(%s::regclass, %s)", [sequence, highest])


def require_sequences_ahead(connection: Connection) -> None:
    """Raise if a sequence is behind its rows."""
    if behind := find_sequences_behind(connection):
        clauses = "; ".join(
            f"{table}: the sequence is at {last:,}, and a row has {highest:,}" for table, _, last, highest in behind
        )
        raise SchemaError(
            f"New rows would get numbers that exist ({clauses}), as after a switch by logical replication, which "
            "copies no sequences. Nothing was changed; run `workorders db migrate`, which advances them."
        )


def _branches() -> dict[str, str]:
    """Return the package of each branch. The core is first, because the tables of the others refer to its tables."""
    points = sorted(entry_points(group=MIGRATIONS_GROUP), key=lambda point: (point.name != "core", point.name))
    return {point.name: point.value for point in points}


def _known_revisions() -> list[set[str]]:
    """Return the revisions of each branch, by the names of their files, so that Alembic need not be loaded."""
    return [
        {path.name.removesuffix(".py") for path in files(package).iterdir() if path.name.endswith(".py")} - {"__init__"}
        for package in _branches().values()
    ]


def _revisions_in(connection: Connection) -> set[str]:
    require_postgres(connection)
    table = f"{SCHEMA}.alembic_version"
    if connection.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
        return set()
    return {str(revision) for (revision,) in connection.execute(f"SELECT version_num FROM {table}".encode())}


def _version(revisions: set[str]) -> str:
    return ", ".join(sorted(revisions))


def _require_known(found: set[str]) -> None:
    unknown = found - set().union(*_known_revisions())
    if unknown:
        raise SchemaError(
            f"The database's tables are at version {_version(found)} and this package does not know "
            f"{_version(unknown)}; nothing was changed; install the version of the package that upgraded them."
        )
