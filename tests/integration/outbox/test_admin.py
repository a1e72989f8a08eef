"""What operators see of the outbox, and of the messages of a work order."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from support.admission import wait_for_lock
from support.executing import Executing
from support.outbox import new_outbox
from workorders.core.postgres.connection import Connection, connect
from workorders.outbox import OutboxMessage, admin
from workorders.outbox.admin import list_published
from workorders.outbox.enqueue import enqueue_published
from workorders.outbox.store import holds

pytestmark = pytest.mark.integration

OF = "SELECT id FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s ORDER BY id"


def test_the_oldest_message_is_one_that_waits_or_is_held(stack: LocalStack, name: str) -> None:
    outbox = new_outbox(stack)
    with outbox.connect() as connection:
        assert admin.oldest_at(connection) is None
    outbox.write(*(OutboxMessage(topic=name, value=value) for value in ("waits", "waits as well")))
    with outbox.connect() as connection:
        waiting = admin.oldest_at(connection)
    assert waiting is not None
    outbox.ask(
        """
        WITH hold AS (
            INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason) VALUES ('key', 'x', 0, 'k', 'no')
            RETURNING id
        )
        INSERT INTO workorders.outbox_messages (hold_id, enqueued_at, event_id, bucket, topic)
        SELECT id, %s, gen_random_uuid(), -1, 'x' FROM hold
        """,
        waiting - timedelta(hours=1),
    )
    with outbox.connect() as connection:
        assert admin.oldest_at(connection) == waiting - timedelta(hours=1)


def test_a_hold_of_a_topic_shows_how_many_messages_wait_for_its_end(stack: LocalStack, name: str) -> None:
    outbox = new_outbox(stack)
    outbox.write(*(OutboxMessage(topic=topic, value="waits") for topic in (name, name, "another")))
    outbox.ask("INSERT INTO workorders.outbox_holds (kind, topic, reason) VALUES ('topic', %s, 'no')", name)
    with outbox.connect() as connection:
        (hold,) = admin.holds(connection)
    assert (hold.kind, hold.messages) == ("topic", 2)


@pytest.fixture
def orders(stack: LocalStack, name: str) -> list[UUID]:
    """Two work orders, each of which has published two messages, and a third one that has published none."""
    executing = Executing(stack.database_url, name)
    executing.create([{"do": "publish"}, {"do": "publish"}, {"do": "echo"}])
    executing.worker(enqueue=enqueue_published).work()
    return [id_ for (id_,) in executing.rows(OF)]


def test_each_work_order_has_its_own_messages_in_their_order(stack: LocalStack, orders: list[UUID]) -> None:
    with connect(stack.database_url) as connection:
        found = [list_published(connection, id_) for id_ in orders]
        assert [[message.topic for message in messages] for messages in found] == [["results"] * 2, ["results"] * 2, []]
        keys = [[key_of(connection, message.event_id) for message in messages] for messages in found]
    assert keys == [[b"k", None], [b"k", None], []]
    assert {message.state for messages in found for message in messages} == {"waiting"}
    assert [message.attempt for message in found[0]] == [1, 1]


def test_a_message_is_held_while_its_hold_lasts_and_sent_once_it_has_left_the_outbox(
    stack: LocalStack, orders: list[UUID]
) -> None:
    with connect(stack.database_url) as connection, connection.transaction(force_rollback=True):
        first, second = list_published(connection, orders[0])
        (hold_id,) = connection.execute(
            "INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason) "
            "SELECT 'key', topic, bucket, event_id::text::bytea, 'too large' FROM workorders.outbox_messages "
            "WHERE event_id = %s RETURNING id",
            [first.event_id],
        ).fetchone() or (0,)
        connection.execute(
            "UPDATE workorders.outbox_messages SET hold_id = %s, bucket = ~bucket WHERE event_id = %s",
            [hold_id, first.event_id],
        )
        connection.execute("DELETE FROM workorders.outbox_messages WHERE event_id = %s", [second.event_id])
        held, sent = list_published(connection, orders[0])
    assert (held.state, held.hold_id) == ("held", hold_id)
    assert (sent.state, sent.hold_id) == ("sent", None)


def test_nothing_is_known_of_a_run_that_is_deleted(stack: LocalStack, orders: list[UUID]) -> None:
    with connect(stack.database_url) as connection, connection.transaction(force_rollback=True):
        (run,) = {message.run_id for message in list_published(connection, orders[0])}
        connection.execute("DELETE FROM workorders.runs WHERE work_order_id = %s", [orders[0]])
        assert connection.execute(
            "SELECT count(*) FROM workorders.outbox_published WHERE run_id = %s", [run]
        ).fetchone() == (0,)


def key_of(connection: Connection, event_id: UUID) -> bytes | None:
    row = connection.execute("SELECT key FROM workorders.outbox_messages WHERE event_id = %s", [event_id]).fetchone()
    assert row is not None
    return None if row[0] is None else bytes(row[0])


def test_a_relay_and_an_operator_who_end_the_same_hold_wait_for_each_other_in_one_order(
    stack: LocalStack, name: str
) -> None:
    outbox = new_outbox(stack)
    outbox.write(*(OutboxMessage(topic=name, key="k", value="waits") for _ in range(3)))
    ((hold,),) = outbox.ask(
        "INSERT INTO workorders.outbox_holds (kind, topic, bucket, key, reason) "
        "SELECT DISTINCT 'key', topic, bucket, key, 'no' FROM workorders.outbox_messages RETURNING id"
    )
    outbox.ask("UPDATE workorders.outbox_messages SET hold_id = %s, bucket = ~bucket", hold)
    with outbox.connect() as operator, outbox.connect() as relay, ThreadPoolExecutor() as pool:
        operator.execute("SELECT FROM workorders.outbox_holds WHERE id = %s FOR UPDATE", (hold,))
        ended = pool.submit(holds.release, relay, hold)
        wait_for_lock(outbox.database_url, relay)
        assert admin.release_hold(operator, hold) == 3
        operator.commit()
        assert ended.result() == 0
