"""How fast messages enter and leave the outbox."""

from datetime import UTC, datetime, timedelta

import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.outbox import Outbox, new_outbox
from support.topics import Topics
from workorders.core.history.workload_history import INTERVALS
from workorders.outbox import OutboxMessage
from workorders.outbox.rates import OutboxRates, delete_old_minutes, read_rates

pytestmark = pytest.mark.integration


def rates(outbox: Outbox, **later: float) -> OutboxRates:
    with outbox.connect() as connection:
        return read_rates(connection, datetime.now(UTC) + timedelta(**later))


@pytest.fixture
def outbox(stack: LocalStack, topics: Topics, name: str) -> Outbox:
    """An outbox that has sent five messages a moment ago, the first of which had waited for an hour."""
    topics.create(name)
    outbox = new_outbox(stack)
    outbox.write(*(OutboxMessage(topic=name, key="k", value=str(number)) for number in range(5)))
    outbox.ask(
        "UPDATE workorders.outbox_messages SET enqueued_at = enqueued_at - interval '1 hour' "
        "WHERE id = (SELECT min(id) FROM workorders.outbox_messages)"
    )
    outbox.relay()
    return outbox


def test_an_outbox_that_has_never_sent_has_no_rates(stack: LocalStack) -> None:
    found = rates(new_outbox(stack))
    assert (found.by_shard, found.enqueued_per_minute, found.oldest_at) == ({}, None, None)
    assert (found.sent, found.sent_per_minute, found.delay_seconds) == ([], 0, None)


def test_what_was_sent_counts_for_its_shard_with_the_longest_delay(outbox: Outbox) -> None:
    found = rates(outbox, seconds=1)
    assert list(found.by_shard) == [0]
    assert (len(found.sent), sum(found.sent), sum(found.sent[-2:])) == (INTERVALS, 5, 5)
    assert found.sent_per_minute == 5 / 20
    assert found.delay_seconds is not None
    assert 3600 <= found.delay_seconds < 3700
    assert found.oldest_at is None
    assert rates(outbox, hours=7).by_shard == {}


def test_the_longest_delay_stays_while_others_are_short(outbox: Outbox, name: str) -> None:
    outbox.write(OutboxMessage(topic=name, value="at once"))
    outbox.ask("UPDATE workorders.outbox_minutes SET minute = date_trunc('minute', now() + interval '5 seconds')")
    outbox.relay()
    found = rates(outbox, minutes=1)
    assert sum(found.sent) == 6
    assert found.delay_seconds is not None
    assert found.delay_seconds >= 3600


def test_the_oldest_message_is_one_that_waits_or_is_held(outbox: Outbox, name: str) -> None:
    outbox.write(OutboxMessage(topic=name, value="waits"))
    waiting = rates(outbox).oldest_at
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
    assert rates(outbox).oldest_at == waiting - timedelta(hours=1)


def test_what_was_enqueued_since_some_minutes_ago_is_a_rate(outbox: Outbox, name: str) -> None:
    assert rates(outbox).enqueued_per_minute is None  # nothing was noted long enough ago
    outbox.ask("UPDATE workorders.outbox_minutes SET noted_at = noted_at - interval '20 minutes'")
    outbox.write(*(OutboxMessage(topic=name, value="more") for _ in range(40)))

    def rate() -> bool:
        found = rates(outbox).enqueued_per_minute
        return found is not None and 1.9 < found < 2.4

    # Postgres reports its statistics a moment later.
    assert eventually(rate, seconds=30, what="the statistics of Postgres")
    outbox.ask("UPDATE workorders.outbox_minutes SET enqueued = 1000000")
    assert rates(outbox).enqueued_per_minute is None  # the statistics were reset


def test_minutes_are_deleted_after_a_day(outbox: Outbox) -> None:
    with outbox.connect() as connection:
        for hours, left in ((23, 1), (25, 0)):
            list(delete_old_minutes(connection, datetime.now(UTC) + timedelta(hours=hours)))
            assert connection.execute("SELECT count(*) FROM workorders.outbox_minutes").fetchone() == (left,)
