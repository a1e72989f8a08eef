"""An upgrade makes the tables that are written down, once, and refuses those of another version."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from local_stack.postgres import SUPERUSER
from local_stack.stack import LocalStack
from support.eventually import eventually
from support.schema_dump import FILE, schema_dump
from workorders.core import schema
from workorders.core.exceptions import SchemaError
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.states import RunState, WorkOrderState

pytestmark = pytest.mark.integration


@pytest.fixture
def new_database(stack: LocalStack) -> Callable[[], str]:
    """Makes an empty database and returns its URL."""

    def make() -> str:
        name = f"schema_{uuid4().hex[:12]}"
        stack.postgres.create_database(name)
        return stack.postgres.url(name)

    return make


def test_an_empty_database_is_brought_to_the_newest_version(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    assert schema.current(database_url) is None
    assert schema.upgrade(database_url) == schema.newest() == schema.current(database_url)


def test_upgrading_twice_changes_nothing(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    before = schema_dump(database_url)
    schema.upgrade(database_url)
    assert schema_dump(database_url) == before


def test_the_printed_sql_makes_the_same_tables_and_version(new_database: Callable[[], str]) -> None:
    by_sql, by_upgrade = new_database(), new_database()
    text = schema.upgrade_sql(by_sql)
    assert schema.current(by_sql) is None
    with psycopg.connect(by_sql, autocommit=True) as connection:
        connection.execute(text.encode())
    schema.upgrade(by_upgrade)
    assert schema_dump(by_sql) == schema_dump(by_upgrade)
    assert schema.current(by_sql) == schema.newest()
    assert schema.upgrade_sql(by_sql) == ""


def test_the_printed_sql_contains_what_is_missing_and_nothing_else(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    before = schema_dump(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("DROP TABLE workorders.webhooks")
        connection.execute("DELETE FROM workorders.alembic_version WHERE version_num LIKE 'webhook%'")
    text = schema.upgrade_sql(database_url)
    assert "CREATE SCHEMA" not in text
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(text.encode())
    assert schema_dump(database_url) == before
    schema.require_newest(database_url)


def test_an_upgrade_needs_no_right_to_create_schemas_once_there_is_one(
    stack: LocalStack, new_database: Callable[[], str]
) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(stack.postgres.url(SUPERUSER), autocommit=True) as connection:
        database = sql.Identifier(str(name))
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, sql.Identifier(SUPERUSER)))
    assert schema.upgrade(database_url) == schema.newest()


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
        first.execute("SELECT pg_advisory_xact_lock(%s)", (AdvisoryLock.SCHEMA_UPGRADE,))
        second = pool.submit(schema.upgrade, impatient)
        eventually(
            lambda: second.done() or looking.execute(waiting_long).fetchall(), seconds=60, what="the second's long wait"
        )
        first.rollback()
        assert second.result(timeout=60) == schema.newest()


def test_the_tables_are_those_of_the_committed_dump(stack: LocalStack) -> None:
    """`make schema` writes it again, so that each change of a table is seen as what it comes to."""
    assert schema_dump(stack.database_url) == FILE.read_text(encoding="utf-8")


def test_the_states_are_those_of_the_database_in_its_order(stack: LocalStack) -> None:
    with psycopg.connect(stack.database_url) as connection:
        for name, states in (("work_order_state", WorkOrderState), ("run_state", RunState)):
            query = sql.SQL("SELECT unnest(enum_range(NULL::workorders.{}))::text").format(sql.Identifier(name))
            assert [state for (state,) in connection.execute(query)] == list(states)


def test_the_newest_tables_are_accepted(stack: LocalStack) -> None:
    schema.require_newest(stack.database_url)


def test_tables_of_another_version_are_refused_with_what_to_do(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    with pytest.raises(SchemaError) as raised:
        schema.require_newest(database_url)
    assert str(raised.value) == (
        f"The database's tables are at version none and this package needs {schema.newest()}; nothing was changed; "
        f"run `workorders db migrate`. [WO-SCHEMA]"
    )
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM workorders.alembic_version WHERE version_num LIKE 'kafka%'")
    with pytest.raises(SchemaError, match="are at version core_0001, outbox_0001, webhook_0001 and"):
        schema.require_newest(database_url)


@pytest.mark.parametrize("look", [schema.upgrade, schema.require_newest])
def test_tables_of_a_newer_package_are_refused_and_left_alone(
    new_database: Callable[[], str], look: Callable[[str], object]
) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE workorders.alembic_version SET version_num = 'kafka_9999' WHERE version_num ~ '^k'")
    before = schema_dump(database_url)
    with pytest.raises(SchemaError) as raised:
        look(database_url)
    assert str(raised.value) == (
        "The database's tables are at version core_0001, kafka_9999, outbox_0001, webhook_0001 and this "
        "package does not know kafka_9999; nothing was changed; install the version of the package that upgraded "
        "them. [WO-SCHEMA]"
    )
    assert schema.current(database_url) == "core_0001, kafka_9999, outbox_0001, webhook_0001"
    assert schema_dump(database_url) == before


def test_a_server_that_is_too_old_is_refused_and_left_alone(
    new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    monkeypatch.setattr(schema, "MIN_POSTGRES", 99)
    for ask in (schema.upgrade, schema.upgrade_sql, schema.current, schema.require_newest):
        with pytest.raises(SchemaError, match=r"The server is PostgreSQL \d\d, and the tables need 99 or newer;"):
            ask(url)
    monkeypatch.undo()
    assert schema.current(url) is None


def test_work_orders_survive_an_upgrade(new_database: Callable[[], str]) -> None:
    database_url = new_database()
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO workorders.workflows (name) VALUES ('admit')")
    schema.upgrade(database_url)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT name FROM workorders.workflows").fetchall() == [("admit",)]
