"""Models and migrations end in the same tables: asked of Postgres's own catalogue."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from psycopg.conninfo import make_conninfo
from sqlalchemy import text

from local_stack.stack import LocalStack
from support.eventually import eventually
from workorders import schema
from workorders.core.exceptions import SchemaError
from workorders.core.postgres.connection import SCHEMA

pytestmark = pytest.mark.integration

CATALOGUE = {
    "columns": """
        SELECT table_name, column_name, data_type, udt_name, is_nullable, column_default, identity_generation
        FROM information_schema.columns WHERE table_schema = 'workorders' AND table_name <> 'alembic_version'
    """,
    "order of columns": """
        SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
        FROM information_schema.columns WHERE table_schema = 'workorders' AND table_name <> 'alembic_version'
        GROUP BY table_name
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, pg_get_constraintdef(oid)
        FROM pg_constraint
        WHERE connamespace = 'workorders'::regnamespace AND conrelid::regclass::text NOT LIKE '%alembic_version'
    """,
    "indexes": """
        SELECT tablename, indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'workorders' AND tablename <> 'alembic_version'
    """,
    "enums": """
        SELECT typname, array_agg(enumlabel::text ORDER BY enumsortorder)
        FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid
        WHERE typnamespace = 'workorders'::regnamespace GROUP BY typname
    """,
}


@pytest.fixture
def new_database(stack: LocalStack) -> Callable[[], str]:
    """Makes an empty database and returns its URL."""

    def make() -> str:
        name = f"schema_{uuid4().hex[:12]}"
        stack.postgres.create_database(name)
        return stack.postgres.url(name)

    return make


def catalogue(database_url: str) -> dict[str, list[Any]]:
    with psycopg.connect(database_url) as connection:
        return {what: sorted(connection.execute(query).fetchall(), key=repr) for what, query in CATALOGUE.items()}


def downgrade(database_url: str) -> None:
    with schema.engine(database_url).begin() as connection:
        config = schema._configuration()
        config.attributes["connection"] = connection
        config.attributes["target_metadata"] = schema.metadata
        config.attributes["version_table_schema"] = SCHEMA
        command.downgrade(config, "base")


def left_behind(database_url: str) -> list[Any]:
    with psycopg.connect(database_url) as connection:
        return connection.execute(
            """
            SELECT relname::text FROM pg_class
            WHERE relnamespace = 'workorders'::regnamespace AND relname NOT LIKE 'alembic%'
            UNION ALL
            SELECT typname::text FROM pg_type
            WHERE typnamespace = 'workorders'::regnamespace AND typname NOT LIKE '%alembic%'
            """
        ).fetchall()


def test_an_empty_database_is_brought_to_the_newest_version(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    assert schema.current(database_url) is None
    assert schema.upgrade(database_url) == schema.newest() == schema.current(database_url)


def test_upgrading_twice_changes_nothing(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    before = catalogue(database_url)
    schema.upgrade(database_url)
    assert catalogue(database_url) == before


def test_two_upgrades_at_once_take_turns(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    barrier = Barrier(3)

    def upgrade(_: int) -> str:
        barrier.wait(30)
        return schema.upgrade(database_url)

    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(upgrade, range(3))) == {schema.newest()}


def test_the_second_upgrade_waits_however_long_the_first_takes(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    impatient = make_conninfo(database_url, options="-c lock_timeout=100 -c statement_timeout=200")
    waiting_long = """
        SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'advisory'
            AND query_start < clock_timestamp() - interval '500 ms'
    """
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(database_url) as first,
        # Within a transaction, Postgres shows the sessions as they were at its first look.
        psycopg.connect(database_url, autocommit=True) as looking,
    ):
        first.execute("SELECT pg_advisory_xact_lock(%s)", (schema._UPGRADE_LOCK,))
        second = pool.submit(schema.upgrade, impatient)
        eventually(
            lambda: second.done() or looking.execute(waiting_long).fetchall(), seconds=60, what="the second's long wait"
        )
        first.rollback()
        assert second.result(timeout=60) == schema.newest()


def test_models_and_migrations_end_in_the_same_tables(new_database: Callable[[], str]) -> None:
    migrated, modelled = new_database(), new_database()
    schema.upgrade(migrated)
    with schema.engine(modelled).begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
        schema.metadata.create_all(connection)
    from_migrations, from_models = catalogue(migrated), catalogue(modelled)
    for what, rows in from_models.items():
        assert rows, what
        assert from_migrations[what] == rows, what


def test_alembic_finds_nothing_to_migrate(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    with schema.engine(database_url).connect() as connection:
        options = {
            "version_table_schema": SCHEMA,
            "include_schemas": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == SCHEMA,
            "compare_type": True,
            "compare_server_default": True,
        }
        assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata) == []


def test_downgrading_leaves_nothing_and_upgrading_again_ends_the_same(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    before = catalogue(database_url)
    downgrade(database_url)
    assert schema.current(database_url) is None
    assert left_behind(database_url) == []
    schema.upgrade(database_url)
    assert catalogue(database_url) == before


def test_the_newest_tables_are_accepted(stack: LocalStack) -> None:
    schema.require_newest(stack.database_url)


def test_tables_of_another_version_are_refused_with_what_to_do(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    with pytest.raises(SchemaError) as raised:
        schema.require_newest(database_url)
    assert str(raised.value) == (
        f"The database's tables are at version none and this package needs {schema.newest()}; nothing was changed; "
        f"run `workorders db upgrade`."
    )
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE workorders.alembic_version SET version_num = 'core_0001'")
    with pytest.raises(SchemaError, match="are at version core_0001 and"):
        schema.require_newest(database_url)


def test_work_orders_survive_an_upgrade(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO workorders.workflows (name) VALUES ('admit')")
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT name FROM workorders.workflows").fetchall() == [("admit",)]


def test_the_way_back_is_open_after_a_decision(new_database: Callable[[], str]) -> None:
    """A partition then has a superseded range and an unfinished one, which the older index would not let stand."""
    database_url = new_database()
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            """
            INSERT INTO workorders.workflows (name) VALUES ('admit');
            INSERT INTO workorders.triggers (name, type, workflow_id, definition) VALUES ('orders', 'kafka', 1, '{}');
            INSERT INTO workorders.kafka_batches (trigger_id) VALUES (1), (1);
            INSERT INTO workorders.kafka_decisions (who, why, trigger_id, topic, partition, kind, from_topic_id,
                from_offset, to_topic_id, to_offset, superseded_batch_id, epoch)
            VALUES ('ada', 'a test', 1, 'orders', 0, 'resume', 'id', 0, 'id', 5, 1, 1);
            INSERT INTO workorders.kafka_ranges (batch_id, topic, partition, trigger_id, topic_id, start_offset,
                end_offset, superseded_by)
            VALUES (1, 'orders', 0, 1, 'id', 0, 10, 1), (2, 'orders', 0, 1, 'id', 5, 10, NULL);
            """
        )
    downgrade(database_url)
    assert left_behind(database_url) == []
