"""What a claim takes: topics by turns, one owner a shard, and nothing under an older epoch."""

from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.outbox import Outbox, new_outbox
from workorders.outbox import OutboxMessage
from workorders.outbox.exceptions import OutboxContradictionError, OutboxFencedError
from workorders.outbox.store import leases
from workorders.outbox.store.backlog import BatchRequest
from workorders.outbox.store.claims import claim, settle_claims

pytestmark = pytest.mark.integration

REQUEST = BatchRequest(max_messages=100, max_bytes=1_000_000)


@pytest.fixture
def outbox(stack: LocalStack) -> Outbox:
    return new_outbox(stack)


def test_a_topic_with_a_backlog_leaves_room_for_the_others(outbox: Outbox) -> None:
    outbox.write(*(OutboxMessage(topic="many", key=f"k{n}", value=str(n)) for n in range(2000)))
    outbox.write(*(OutboxMessage(topic="few", key="k", value=str(n)) for n in range(3)))
    with outbox.connect() as connection:
        lease = leases.take(connection, 0, "test")
        assert lease is not None
        batch = claim(connection, lease, REQUEST)
        assert batch is not None
        assert [row.value for row in batch.rows if row.topic == "few"] == [b"0", b"1", b"2"]
        assert 40 <= sum(row.topic == "many" for row in batch.rows) <= 100


@pytest.mark.parametrize(
    "large", [{"value": b"x" * 1000}, {"headers": [("h", "x" * 1000)], "value": None}], ids=["value", "headers"]
)
def test_a_batch_has_no_more_bytes_than_asked_for_but_one_message_in_any_case(
    outbox: Outbox, large: dict[str, Any]
) -> None:
    outbox.write(*(OutboxMessage(topic="t", key="k", **large) for _ in range(20)))
    with outbox.connect() as connection:
        lease = leases.take(connection, 0, "test")
        assert lease is not None
        for most, expected in ((5000, 5), (10, 1)):
            wanted = BatchRequest(max_messages=100, max_bytes=most)
            batch = claim(connection, lease, wanted)
            assert batch is not None
            assert len(batch.rows) == expected


def test_rows_come_oldest_first_in_whatever_order_postgres_joins_the_held_keys(outbox: Outbox) -> None:
    outbox.write(*(OutboxMessage(topic="t", key=f"k{n * 7 % 50}", value=str(n)) for n in range(100)))
    with outbox.connect() as connection:
        # A merge joins by key, as Postgres may do by itself where very many keys are held.
        connection.execute("SET enable_hashjoin = off; SET enable_nestloop = off")
        lease = leases.take(connection, 0, "test")
        assert lease is not None
        batch = claim(connection, lease, REQUEST)
        assert batch is not None
        ids = [row.id for row in batch.rows]
        assert len(ids) > 50
        assert ids == sorted(ids)


def test_a_shard_has_one_owner_until_its_lease_runs_out_and_then_the_old_one_changes_nothing(outbox: Outbox) -> None:
    outbox.write(OutboxMessage(topic="t", key="k", value="1"))
    with outbox.connect() as connection:
        first = leases.take(connection, 0, "first")
        assert first is not None
        assert leases.take(connection, 0, "second") is None
        connection.execute("UPDATE workorders.outbox_shards SET leased_until = clock_timestamp()")
        second = leases.take(connection, 0, "second")
        assert second is not None
        assert second.epoch > first.epoch
        with pytest.raises(OutboxFencedError):
            claim(connection, first, REQUEST)
        with pytest.raises(OutboxFencedError):
            leases.renew(connection, first)
        leases.release(connection, first)
        assert leases.take(connection, 0, "third") is None
        leases.renew(connection, second)


def test_a_checkpoint_that_does_not_fit_stops_the_shard_and_changes_nothing(outbox: Outbox) -> None:
    """The database was restored to a time before the batch was claimed, or the checkpoint topic was lost."""
    outbox.write(OutboxMessage(topic="t", key="k", value="1"))
    with outbox.connect() as connection:
        lease = leases.take(connection, 0, "test")
        assert lease is not None
        batch = claim(connection, lease, REQUEST)
        assert batch is not None
        with pytest.raises(OutboxContradictionError, match="release --shard 0"):
            settle_claims(connection, lease, batch.number + 5)
        assert outbox.waiting() == 1
        assert settle_claims(connection, lease, batch.number) == (1, 1)
    assert outbox.waiting() == 0
