"""Sequences that are behind their rows, as in a database that logical replication has filled."""

from collections.abc import Iterator

import pytest

from local_stack.stack import LocalStack
from support.outbox import new_outbox
from workorders.core import schema
from workorders.core.exceptions import SchemaError
from workorders.core.postgres.connection import Connection
from workorders.outbox import OutboxMessage, publish

pytestmark = pytest.mark.integration

RESET = "SELECT setval(pg_get_serial_sequence(%s, 'id'), 1, false)"


@pytest.fixture
def connection(connection: Connection) -> Iterator[Connection]:
    """A connection, after which no sequence is behind."""
    yield connection
    connection.rollback()
    schema.advance_sequences(connection)
    connection.commit()


def test_each_identity_column_is_compared_with_its_rows(connection: Connection) -> None:
    connection.execute("INSERT INTO workorders.workflows (name) VALUES ('numbered') ON CONFLICT DO NOTHING")
    connection.commit()
    assert schema.find_sequences_behind(connection) == []
    connection.execute(RESET, ["workorders.workflows"])
    ((table, _, last, highest),) = schema.find_sequences_behind(connection)
    assert (table, last < highest) == ("workflows", True)


def test_an_upgrade_advances_what_is_behind_and_until_then_the_tables_are_refused(
    connection: Connection, stack: LocalStack
) -> None:
    connection.execute("INSERT INTO workorders.workflows (name) VALUES ('numbered') ON CONFLICT DO NOTHING")
    connection.execute(RESET, ["workorders.workflows"])
    connection.commit()
    with pytest.raises(SchemaError, match=r"workflows: the sequence is at .* run `workorders db migrate`"):
        schema.require_newest(stack.database_url)
    schema.upgrade(stack.database_url)
    schema.require_newest(stack.database_url)
    connection.execute("INSERT INTO workorders.workflows (name) VALUES ('numbered next') ON CONFLICT DO NOTHING")


def test_held_messages_count_for_the_numbers_of_those_that_wait(connection: Connection) -> None:
    publish(connection, "numbered", "x", key="k")
    connection.execute(
        """
        WITH hold AS (
            INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason)
            VALUES ('key', 'numbered', 0, 'k', 'x') RETURNING id
        )
        UPDATE workorders.outbox_messages SET hold_id = hold.id, bucket = ~bucket FROM hold WHERE topic = 'numbered'
        """
    )
    connection.execute("DELETE FROM workorders.outbox_messages WHERE hold_id IS NULL")
    connection.execute(RESET, ["workorders.outbox_messages"])
    assert [table for table, *_ in schema.find_sequences_behind(connection)] == ["outbox_messages"]


def test_the_relay_sends_nothing_while_newer_messages_could_get_lower_numbers(stack: LocalStack, name: str) -> None:
    outbox = new_outbox(stack)
    outbox.write(*[OutboxMessage(topic=name, key="k", value=str(n)) for n in range(3)])
    outbox.ask(RESET, "workorders.outbox_messages")
    with pytest.raises(SchemaError, match="outbox_messages: the sequence is at"):
        outbox.relay()
    assert outbox.ask("SELECT count(*) FROM workorders.outbox_messages") == [(3,)]
    schema.upgrade(outbox.database_url)
    outbox.write(OutboxMessage(topic=name, key="k", value="3"))
    values = outbox.ask("SELECT convert_from(value, 'UTF8') FROM workorders.outbox_messages ORDER BY id")
    assert values == [("0",), ("1",), ("2",), ("3",)]
