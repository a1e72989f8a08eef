"""The connection that the deferred tasks of a triggerer share."""

import asyncio

import psycopg
import pytest

from local_stack.stack import LocalStack
from workorders.airflow.shared import SharedDatabase

pytestmark = pytest.mark.integration

# Locking is writing to Postgres, so a server that only reads refuses it.
WRITING = "SELECT id FROM workorders.workflows LIMIT 0 FOR UPDATE"


def test_a_server_that_takes_no_writes_is_left_for_a_new_connection(stack: LocalStack) -> None:
    async def fail_over() -> list[tuple[object, ...]]:
        database = SharedDatabase(stack.database_url)
        try:
            # With rows, as every question has them.
            await database.fetch("SELECT set_config('default_transaction_read_only', 'on', false)", {})
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                await database.fetch(WRITING, {})
            return await database.fetch(WRITING, {})
        finally:
            await database.close_idle()

    assert asyncio.run(fail_over()) == []
