"""What operators see of the outbox."""

from datetime import timedelta

import pytest

from local_stack.stack import LocalStack
from support.outbox import new_outbox
from workorders.outbox import OutboxMessage, admin

pytestmark = pytest.mark.integration


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
        INSERT INTO workorders.outbox_held (hold_id, id, enqueued_at, event_id, bucket, topic)
        SELECT id, 1, %s, gen_random_uuid(), 0, 'x' FROM hold
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
