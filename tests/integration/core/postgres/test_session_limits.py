"""Sessions through a real PgBouncer: with limits, or not at all."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from local_stack.pgbouncer import LIMITS, PgBouncer, Pooling
from local_stack.stack import LocalStack
from support.pgbouncer import set_limits, start_pooler
from workorders.airflow.triggers.polling import TriggererDatabase
from workorders.core.postgres.connection import SESSION_SETTINGS, connect, error_code, is_outage

pytestmark = pytest.mark.integration


@pytest.fixture(params=["transaction", "session"])
def pooling(request: pytest.FixtureRequest) -> Pooling:
    """When a client returns its connection to the server."""
    found: Pooling = request.param
    return found


@pytest.fixture(params=[False, True], ids=["refuses-options", "drops-options"])
def pooler(request: pytest.FixtureRequest, stack: LocalStack, pooling: Pooling) -> Iterator[PgBouncer]:
    """PgBouncer in front of the stack's database, whose role has no limits."""
    running = start_pooler(stack, pooling, drops_options=request.param)
    yield running
    running.stop()
    set_limits(stack, are_set=False)


def test_without_limits_on_the_role_no_session_is_used_and_the_error_has_what_to_run(pooler: PgBouncer) -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        connect(pooler.url)
    text = str(raised.value)
    assert "nothing was read or changed" in text
    for name in list(LIMITS)[:3]:
        assert f"ALTER ROLE workorders SET {name} = '{SESSION_SETTINGS[name]}';" in text
    assert not is_outage(raised.value)
    assert error_code(raised.value) == "WO-POSTGRES-REFUSED"


def test_what_the_error_says_to_run_is_enough(stack: LocalStack, pooler: PgBouncer) -> None:
    with pytest.raises(psycopg.OperationalError) as raised:
        connect(pooler.url)
    statements = str(raised.value).partition("Run once: ")[2].partition(" Then")[0]
    with psycopg.connect(stack.database_url, autocommit=True) as direct:
        direct.execute(statements.encode())
    pooler.reconnect()
    with connect(pooler.url, application_name="workorders test") as connection:
        found = {name: connection.execute(f"SHOW {name}".encode()).fetchone() for name in LIMITS}
    assert found == {
        "lock_timeout": ("30s",),
        "statement_timeout": ("5min",),
        "idle_in_transaction_session_timeout": ("5min",),
        "timezone": ("UTC",),
    }


def test_the_triggerers_sessions_have_limits_as_well(stack: LocalStack) -> None:
    pooler = start_pooler(stack, "transaction")

    async def fetch() -> list[tuple[object, ...]]:
        database = TriggererDatabase(pooler.url)
        try:
            return await database.run(lambda open_: open_.execute("SELECT current_setting('lock_timeout')").fetchall())
        finally:
            await database.close()

    with pytest.raises(psycopg.OperationalError, match="has no session limits"):
        asyncio.run(fetch())
    set_limits(stack, are_set=True)
    pooler.reconnect()
    assert asyncio.run(fetch()) == [("30s",)]
    set_limits(stack, are_set=False)
    pooler.stop()


def test_a_direct_session_may_have_other_limits_by_its_url(stack: LocalStack) -> None:
    with connect(f"{stack.database_url}?options=-c%20statement_timeout%3D0") as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)


def test_the_isolation_level_is_the_packages_own_whatever_the_roles_is(stack: LocalStack) -> None:
    with psycopg.connect(stack.database_url, autocommit=True) as direct:
        direct.execute("ALTER ROLE workorders SET default_transaction_isolation = 'repeatable read'")
    try:
        with connect(stack.database_url) as connection:
            assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
    finally:
        with psycopg.connect(stack.database_url, autocommit=True) as direct:
            direct.execute("ALTER ROLE workorders RESET default_transaction_isolation")
