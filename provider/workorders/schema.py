"""The database schema of all rooms together: upgrade it, ask for its version."""

from importlib.resources import as_file, files

import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

import workorders.core.admission_tables  # adds its tables to the metadata, as the others do
import workorders.core.history_tables
import workorders.kafka.tables as _kafka_tables
import workorders.outbox.tables  # noqa: F401
from workorders.core.exceptions import SchemaError
from workorders.core.postgres.connection import SCHEMA, connect

metadata = _kafka_tables.kafka_ledger.metadata
"""Every room's tables; importing a room's `tables` adds them."""

_VERSION_PACKAGES = (
    "workorders.core.migrations.versions",
    "workorders.kafka.migrations.versions",
    "workorders.outbox.migrations.versions",
)
_UPGRADE_LOCK = 4_564_018
"""Key of the advisory lock that lets one upgrade run at a time; any constant does."""


def _configuration() -> Config:
    with as_file(files("workorders.core.migrations")) as scripts:
        config = Config()
        config.set_main_option("script_location", str(scripts))
    locations = [str(files(package)) for package in _VERSION_PACKAGES]
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(locations))
    return config


def engine(database_url: str) -> sqlalchemy.Engine:
    """Return a SQLAlchemy engine whose connections are made by `workorders.core.postgres.connection.connect`."""
    return create_engine(
        "postgresql+psycopg://",
        creator=lambda: connect(database_url, application_name="workorders schema"),
        poolclass=NullPool,
    )


def upgrade(database_url: str) -> str:
    """Bring the tables to the newest version, in one transaction, and return that version.

    Safe to call from several processes at once: the others wait and then find nothing to do.
    """
    with engine(database_url).begin() as connection:
        # Another upgrade may take longer than any lock is waited for, and an index on a large table longer than any
        # other statement lasts. In the transaction, because it must win over what the URL says.
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        config = _configuration()
        config.attributes["connection"] = connection
        config.attributes["target_metadata"] = metadata
        config.attributes["version_table_schema"] = SCHEMA
        command.upgrade(config, "head")
    return newest()


def current(database_url: str) -> str | None:
    """Return the version that the database is at; None when it was never upgraded."""
    with engine(database_url).connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
        return context.get_current_revision()


def newest() -> str:
    """Return the version that this package needs."""
    head = ScriptDirectory.from_config(_configuration()).get_current_head()
    if head is None:  # cannot be: the package ships its migrations
        raise SchemaError("The package holds no migrations; install it again.")
    return head


def require_newest(database_url: str) -> None:
    """Refuse to go on with tables of another version.

    Raises:
        SchemaError: the versions differ.
    """
    found = current(database_url)
    if found != newest():
        raise SchemaError(
            f"The database's tables are at version {found or 'none'} and this package needs {newest()}; "
            f"nothing was changed; run `workorders db upgrade`."
        )
