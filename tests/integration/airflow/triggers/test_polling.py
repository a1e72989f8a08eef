"""The connections that the deferred tasks of a triggerer share."""

import asyncio
from typing import Any, Final, LiteralString

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from local_stack.stack import LocalStack
from workorders.airflow.triggers.polling import MAX_CONNECTIONS, TriggererDatabase, shared
from workorders.core.postgres.connection import Connection, is_refused_connection

pytestmark = pytest.mark.integration

# Locking is writing to Postgres, so a server that only reads refuses it.
WRITING: Final = "SELECT id FROM workorders.workflows LIMIT 0 FOR UPDATE"


def rows_of(connection: Connection, query: LiteralString) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def test_a_server_that_takes_no_writes_is_left_for_a_new_connection(stack: LocalStack) -> None:
    async def fail_over() -> list[tuple[object, ...]]:
        database = TriggererDatabase(stack.database_url)
        try:
            # With rows, as every question has them.
            await database.run(rows_of, "SELECT set_config('default_transaction_read_only', 'on', false)")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                await database.run(rows_of, WRITING)
            return await database.run(rows_of, WRITING)
        finally:
            await database.close()

    assert asyncio.run(fail_over()) == []


async def is_waiting_for_a_lock(database: TriggererDatabase) -> bool:
    """Return whether a session of the triggerer waits for a lock."""
    query = "SELECT FROM pg_stat_activity WHERE application_name = 'workorders triggerer' AND wait_event = 'advisory'"
    return bool(await database.run(rows_of, query))


def test_a_statement_that_waits_holds_up_no_other_task(stack: LocalStack) -> None:
    async def look_meanwhile() -> None:
        database = TriggererDatabase(stack.database_url)
        with psycopg.connect(stack.database_url) as other:
            other.execute("SELECT pg_advisory_xact_lock(4712)")
            slow = asyncio.create_task(database.run(rows_of, "SELECT pg_advisory_xact_lock(4712)"))
            async with asyncio.timeout(30):
                # Each look is one of another task, and ends while the slow statement waits.
                while not await is_waiting_for_a_lock(database):
                    await asyncio.sleep(0)
            assert not slow.done()
            other.rollback()
            await slow
        await database.close()

    asyncio.run(look_meanwhile())


def test_however_many_look_at_once_there_are_a_few_connections(stack: LocalStack) -> None:
    async def pids() -> set[object]:
        database = TriggererDatabase(stack.database_url)
        looks = [database.run(rows_of, "SELECT pg_backend_pid()") for _ in range(5 * MAX_CONNECTIONS)]
        try:
            return {pid for ((pid,),) in await asyncio.gather(*looks)}
        finally:
            await database.close()

    assert len(asyncio.run(pids())) <= MAX_CONNECTIONS


def test_a_statement_that_takes_too_long_gives_its_connection_back(stack: LocalStack) -> None:
    async def limits() -> tuple[object, ...]:
        database = TriggererDatabase(stack.database_url)
        query = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
        try:
            return (await database.run(rows_of, query))[0]
        finally:
            await database.close()

    assert asyncio.run(limits()) == ("30s", "5s")


def test_a_wrong_password_is_told_as_such(stack: LocalStack) -> None:
    async def connect() -> None:
        database = TriggererDatabase(make_conninfo(stack.database_url, user="nobody", password="wrong"))
        try:
            await database.run(rows_of, "SELECT 1")
        finally:
            await database.close()

    with pytest.raises(psycopg.OperationalError) as caught:
        asyncio.run(connect())
    assert is_refused_connection(caught.value)


def test_what_tasks_share_is_made_once_and_kept_no_longer_than_the_last_of_them_uses_it() -> None:
    made: list[str] = []
    closed: list[str] = []

    class Made:
        def __init__(self, settings: str) -> None:
            self.settings = settings
            made.append(settings)

        async def close(self) -> None:
            closed.append(self.settings)

    async def use() -> None:
        async with shared(Made, "old password") as first, shared(Made, "old password") as second:
            assert first is second
            async with shared(Made, "new password") as third:
                assert third is not first
            assert closed == ["new password"]

    asyncio.run(use())
    assert (made, closed) == (["old password", "new password"], ["new password", "old password"])
