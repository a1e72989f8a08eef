"""The database schema of all packages together: upgrade it, and find out its version.

Every package with tables has a branch of revisions, named like the package. The version of the schema is the newest
revision of each branch.
"""

from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.resources import as_file, files
from io import StringIO
from typing import Any, Final, cast

from workorders.core import concurrent_indexes
from workorders.core.exceptions import SchemaError
from workorders.core.postgres.connection import SCHEMA, Connection, connect
from workorders.core.postgres.locks import AdvisoryLock

MIGRATIONS_GROUP: Final = "workorders.migrations"
"""Entry points: each names a branch, and the package that contains its revisions."""
_LOWEST_SERVER: Final = 16
# Another upgrade may take longer than any lock is waited for, and an index on a large table longer than any other
# statement lasts. In the transaction, because it must win over the URL's settings.
_LOCKED: Final = (
    "SET LOCAL lock_timeout = 0",
    "SET LOCAL statement_timeout = 0",
    f"SELECT pg_advisory_xact_lock({AdvisoryLock.SCHEMA_UPGRADE.value})",
)


def upgrade(database_url: str) -> str:
    """Upgrade the tables to the newest version, in one transaction, and return that version.

    Then build the indexes that a transaction would make writers wait for. Safe to call from several processes at once:
    the others wait and then find nothing to do.

    Raises:
        SchemaError: a newer version of this package has upgraded the tables, and nothing was changed; or an index could
            not be built.
    """
    # Nothing but an upgrade needs it, and it takes half a second to import.
    import sqlalchemy  # noqa: PLC0415

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: connect(database_url, application_name="workorders schema"),
        poolclass=sqlalchemy.NullPool,
    )
    try:
        with engine.begin() as connection:
            for statement in _LOCKED:
                connection.exec_driver_sql(statement)
            own = cast("Connection", connection.connection.driver_connection)
            _migrate(_revisions_in(own), _create_schema(own), connection=connection)
    except sqlalchemy.exc.DBAPIError as error:
        raise error.orig or error from error
    concurrent_indexes.build(database_url, _indexes())
    return newest()


def upgrade_sql(database_url: str) -> str:
    """Return the SQL of the upgrade that the database needs; empty if it needs none.

    It is one transaction, and behind it the statements that build indexes, which must be in none.

    Raises:
        SchemaError: a newer version of this package has upgraded the tables.
    """
    with connect(database_url, application_name="workorders schema") as connection:
        found, before = _revisions_in(connection), [*_LOCKED, *_create_schema(connection)]
        indexes = concurrent_indexes.statements(connection, _indexes()).values()
    text = StringIO()
    if _version(found) != newest():
        _migrate(found, before, output=text)
    text.writelines(f"{drop};\n{create};\n" for drop, create in indexes)
    return text.getvalue()


def _migrate(
    found: set[str], before: Sequence[str], *, connection: object = None, output: StringIO | None = None
) -> None:
    """Run the revisions that are missing, or write their SQL.

    Args:
        found: the revisions that the database has.
        before: statements before those of the revisions.
        connection: SQLAlchemy's, in a transaction; None to write.
        output: where to write.
    """
    from alembic.config import Config  # noqa: PLC0415 - as above
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    _require_known(found)
    branches = _branches()
    with as_file(files("workorders.core.migrations")) as scripts:
        config = Config(output_buffer=output)
        config.set_main_option("script_location", str(scripts))
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", "\n".join(str(files(package)) for package in branches.values()))
        config.attributes.update(connection=connection, version_table_schema=SCHEMA, before=before)
        script = ScriptDirectory.from_config(config)

        # Branch by branch, as alembic's own command does for one: the tables of a branch refer to those of the core.
        def steps(revisions: Any, _: object) -> list[Any]:
            return [step for branch in branches for step in script._upgrade_revs(f"{branch}@head", revisions)]

        # With a connection, alembic asks the database itself.
        start = None if output is None else tuple(sorted(found)) or None
        with EnvironmentContext(config, script, fn=steps, as_sql=output is not None, starting_rev=start):
            script.run_env()


def _create_schema(connection: Connection) -> list[str]:
    """Return the statement that creates the schema, which needs a right of its own; none if it exists."""
    exists = connection.execute("SELECT to_regnamespace(%s)", [SCHEMA]).fetchone() != (None,)
    return [] if exists else [f"CREATE SCHEMA {SCHEMA}"]


def current(database_url: str) -> str | None:
    """Return the version that the database is at; None when it was never upgraded."""
    with connect(database_url, application_name="workorders schema") as connection:
        return _version(_revisions_in(connection)) or None


def newest() -> str:
    """Return the version that this package needs."""
    return _version({max(known) for known in _known_revisions()})


def require_newest(database_url: str) -> None:
    """Raise unless the database is at the version that this package needs.

    Raises:
        SchemaError: the versions differ.
    """
    with connect(database_url, application_name="workorders schema") as connection:
        found = _revisions_in(connection)
    _require_known(found)
    if _version(found) != newest():
        raise SchemaError(
            f"The database's tables are at version {_version(found) or 'none'} and this package needs {newest()}; "
            f"nothing was changed; run `workorders db upgrade`."
        )


def _branches() -> dict[str, str]:
    """Return the package of each branch. The core is first, because the tables of the others refer to its tables."""
    points = sorted(entry_points(group=MIGRATIONS_GROUP), key=lambda point: (point.name != "core", point.name))
    if not points:  # an installation from before the group existed
        raise SchemaError("The installed package names no migrations; nothing was changed; install it again.")
    return {point.name: point.value for point in points}


def _indexes() -> concurrent_indexes.Indexes:
    return concurrent_indexes.load_indexes(_branches().values())


def _known_revisions() -> list[set[str]]:
    """Return the revisions of each branch, by the names of their files, so that Alembic need not be loaded."""
    return [
        {path.name.removesuffix(".py") for path in files(package).iterdir() if path.name.endswith(".py")} - {"__init__"}
        for package in _branches().values()
    ]


def _revisions_in(connection: Connection) -> set[str]:
    server = connection.info.server_version // 10_000
    if server < _LOWEST_SERVER:
        raise SchemaError(
            f"The server runs PostgreSQL {server} and this package needs {_LOWEST_SERVER} or newer; nothing was "
            f"changed; give a database on a newer server."
        )
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
