"""An upgrade builds indexes of large tables while others write to them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from workorders.core import concurrent_indexes, schema
from workorders.core.exceptions import SchemaError

pytestmark = pytest.mark.integration

NAME = "work_orders_created_at_idx"
INSERT = """
    INSERT INTO workorders.work_orders (id, trigger_id, workflow_id, state)
    VALUES (gen_random_uuid(), 1, 1, 'success')
"""


@pytest.fixture
def database_url(stack: LocalStack) -> str:
    name = f"indexes_{uuid4().hex[:12]}"
    stack.postgres.create_database(name)
    schema.upgrade(stack.postgres.url(name))
    return stack.postgres.url(name)


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let this package need an index, as a later version may."""

    def needs(body: str = "ON workorders.work_orders (created_at);") -> None:
        package = f"migrations_{uuid4().hex[:8]}"
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        text = f"-- What it is for.\n\n-- name: {NAME}\n{body}\n"
        (tmp_path / package / concurrent_indexes.FILE).write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(schema, "_indexes", lambda: concurrent_indexes.load_indexes([package]))

    return needs


def validity(database_url: str) -> list[bool]:
    query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
    with psycopg.connect(database_url) as connection:
        return [is_valid for (is_valid,) in connection.execute(query, [f"workorders.{NAME}"])]


def test_writers_do_not_wait_while_an_index_is_built(database_url: str, next_version: Callable[..., None]) -> None:
    next_version()
    building = """
        SELECT FROM pg_stat_progress_create_index WHERE datname = current_database() AND phase LIKE 'waiting%'
    """
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(database_url) as open_transaction,
        psycopg.connect(database_url, autocommit=True, options="-c lock_timeout=2s") as writer,
    ):
        open_transaction.execute(INSERT)
        upgrade = pool.submit(schema.upgrade, database_url)
        eventually(lambda: upgrade.done() or writer.execute(building).fetchall(), seconds=60, what="a build that waits")
        writer.execute(INSERT)
        assert validity(database_url) == [False]
        open_transaction.commit()
        assert upgrade.result(timeout=60) == schema.newest()
    assert validity(database_url) == [True]


def test_an_index_of_an_interrupted_build_is_built_again(database_url: str, next_version: Callable[..., None]) -> None:
    next_version()
    with (
        psycopg.connect(database_url) as open_transaction,
        psycopg.connect(database_url, autocommit=True, options="-c statement_timeout=500") as interrupted,
    ):
        open_transaction.execute(INSERT)
        with pytest.raises(psycopg.errors.QueryCanceled):
            interrupted.execute(f"CREATE INDEX CONCURRENTLY {NAME} ON workorders.work_orders (created_at)".encode())
    assert validity(database_url) == [False]
    schema.upgrade(database_url)
    assert validity(database_url) == [True]


def test_an_index_that_cannot_be_built_leaves_the_tables_upgraded(
    database_url: str, next_version: Callable[..., None]
) -> None:
    next_version("ON workorders.work_orders (nothing);")
    with pytest.raises(SchemaError) as raised:
        schema.upgrade(database_url)
    assert str(raised.value) == (
        f'The index {NAME} could not be built (column "nothing" does not exist); the tables are upgraded and can be '
        "used, but some queries are slow. Run `workorders db migrate` again, and connect to Postgres directly if a "
        "pooler is between. [WO-SCHEMA]"
    )
    schema.require_newest(database_url)


def test_two_upgrades_at_once_build_an_index_once(database_url: str, next_version: Callable[..., None]) -> None:
    next_version()
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(schema.upgrade, [database_url] * 2)) == {schema.newest()}
    assert validity(database_url) == [True]


def test_the_printed_sql_builds_what_is_missing(database_url: str, next_version: Callable[..., None]) -> None:
    assert schema.upgrade_sql(database_url) == ""
    next_version()
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in schema.upgrade_sql(database_url).splitlines():
            connection.execute(statement.encode())
    assert validity(database_url) == [True]
    assert schema.upgrade_sql(database_url) == ""
