"""A benchmark's rows count only if each message is there, with its own value and metadata."""

from collections.abc import Iterator

import psycopg
import pytest

from benchmarks import contents, plain_table
from local_stack.stack import LocalStack

pytestmark = pytest.mark.integration

COUNT = 10


@pytest.fixture
def connection(stack: LocalStack) -> Iterator[psycopg.Connection]:
    """The plain table with a right row for each of some messages."""
    plain_table.create(stack.database_url)
    contents.expect(stack.database_url, contents.spread("observations", 4, COUNT))
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(
            f'INSERT INTO {plain_table.TABLE} (topic, partition, "offset", body, request) '
            """SELECT topic, partition, "offset", body, request || '{"timestamp": 1}' FROM expected_rows"""
        )
        yield connection
        connection.execute(f"DROP TABLE {plain_table.TABLE}, expected_rows")


def test_right_rows_count(stack: LocalStack, connection: psycopg.Connection) -> None:
    contents.require_right(stack.database_url, contents.PLAIN_ROWS, COUNT)


@pytest.mark.parametrize(
    "change",
    [
        f'DELETE FROM {plain_table.TABLE} WHERE partition = 1 AND "offset" = 1',
        f'UPDATE {plain_table.TABLE} SET body = body || \'{{"value": 0}}\' WHERE partition = 1 AND "offset" = 1',
        f'UPDATE {plain_table.TABLE} SET request = request || \'{{"key": "x"}}\' WHERE partition = 1 AND "offset" = 1',
        f"UPDATE {plain_table.TABLE} SET request = request - 'timestamp' WHERE partition = 1 AND \"offset\" = 1",
        f'UPDATE {plain_table.TABLE} SET "offset" = 100 WHERE partition = 1 AND "offset" = 1',
    ],
    ids=["missing", "another body", "another key", "no timestamp", "another offset"],
)
def test_a_wrong_row_is_an_error(stack: LocalStack, connection: psycopg.Connection, change: str) -> None:
    connection.execute(change.encode())
    with pytest.raises(RuntimeError, match="10 messages"):
        contents.require_right(stack.database_url, contents.PLAIN_ROWS, COUNT)
