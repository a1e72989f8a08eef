"""An event that comes again is counted and found, whether it is kept as a separate work order or creates nothing."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from support.admission import BY_ID, events, register
from support.admission import ids as ids_of
from support.runs import finish_all, keeping
from support.work_orders import accepted
from workorders.core.admission import duplicates
from workorders.core.creation.create_one import CreateResult, create_one
from workorders.core.creation.work_orders import create_for
from workorders.core.items import Item
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

DAY = 86_400.0


def send(connection: Connection, trigger: Trigger, key: str, caller: str = "a") -> CreateResult:
    """Send one event with a key, and commit."""
    item = Item(None, None, b'{"from": "%s"}' % caller.encode(), b'{"a": 1}')
    made = create_one(connection, trigger, item, key=key, key_seconds=DAY)
    connection.commit()
    return made


def sent(connection: Connection, trigger: Trigger, key: str, caller: str = "a") -> duplicates.Repeats:
    """Send one event with a key, and return what is known of its repeats then."""
    made = send(connection, trigger, key, caller)
    assert made.id is not None
    found = duplicates.summary(connection, made.id)
    connection.commit()
    return found


def test_repeats_ignored_are_counted_with_when_the_last_came_and_where_from(
    connection: Connection, trigger: Trigger
) -> None:
    assert sent(connection, trigger, "k") == duplicates.Repeats(0, 0, None, None, [])
    first = sent(connection, trigger, "k", "b")
    second = sent(connection, trigger, "k", "c")
    assert (first.ignored, second.ignored, second.total) == (1, 2, 2)
    assert first.last_at is not None
    assert second.last_at is not None
    assert first.last_at < second.last_at <= datetime.now(UTC)
    assert second.last_request == '{\n    "from": "c"\n}'
    assert sent(connection, trigger, "another key").total == 0


def test_a_first_event_writes_nothing_about_repeats(connection: Connection, trigger: Trigger) -> None:
    made = send(connection, trigger, "k")
    row = connection.execute(
        "SELECT count(*) FROM workorders.ignored_repeats WHERE work_order_id = %s", (made.id,)
    ).fetchone()
    assert row == (0,)


def test_a_key_that_was_free_again_is_counted_from_the_beginning_and_the_old_count_stays(
    connection: Connection, trigger: Trigger
) -> None:
    old = send(connection, trigger, "k")
    send(connection, trigger, "k")
    connection.execute("UPDATE workorders.idempotency_keys SET expires_at = now() WHERE trigger_id = %s", (trigger.id,))
    connection.commit()
    assert sent(connection, trigger, "k").total == 0
    assert sent(connection, trigger, "k").total == 1
    assert old.id is not None
    assert duplicates.summary(connection, old.id).total == 1


def test_a_repeat_neither_waits_for_its_work_order_nor_locks_it(
    connection: Connection, other: Connection, trigger: Trigger
) -> None:
    """A claim passes over what is locked, and would take a younger one with its ordering key; a job may hold it."""
    made = send(connection, trigger, "k")
    locking = "SELECT FROM workorders.work_orders WHERE id = %s FOR UPDATE NOWAIT"
    other.execute(locking, (made.id,))
    connection.execute("SET lock_timeout = '1s'")
    assert create_one(connection, trigger, accepted(None, None), key="k").id == made.id
    other.rollback()
    other.execute(locking, (made.id,))
    connection.commit()
    assert made.id is not None
    assert duplicates.summary(connection, made.id).ignored == 1


def test_kept_repeats_are_counted_and_the_newest_are_named(connection: Connection, name: str) -> None:
    trigger = register(connection, name, idempotency=BY_ID)
    create_for(connection, trigger, events("a" * 13))
    connection.commit()
    first, *others = ids_of(connection, trigger)
    found = duplicates.summary(connection, first)
    assert (found.total, found.kept, found.ignored) == (12, 12, 0)
    assert [repeat.id for repeat in found.newest] == others[:1:-1]
    assert {repeat.stream for repeat in found.newest} == {"s"}
    assert [repeat.position for repeat in found.newest] == list(range(12, 2, -1))
    assert found.last_at == found.newest[0].created_at
    assert duplicates.summary(connection, others[0]).total == 0


def test_both_kinds_count_together_and_the_later_one_is_the_last(connection: Connection, name: str) -> None:
    trigger = register(connection, name, idempotency=BY_ID)
    body = b'{"id": "a"}'
    made = create_one(connection, trigger, accepted(None, None, body), key="k")
    connection.commit()
    create_for(connection, trigger, [accepted("s", 0, body)])
    connection.commit()
    create_one(connection, trigger, accepted(None, None, body), key="k")
    connection.commit()
    assert made.id is not None
    found = duplicates.summary(connection, made.id)
    assert (found.total, found.kept, found.ignored) == (2, 1, 1)
    assert found.last_at is not None
    assert found.last_at > found.newest[0].created_at


def test_retention_wipes_where_repeats_came_from_also_those_after_a_wipe(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    keeping(connection, name, erase_after="5d")
    first = send(connection, trigger, "k")
    assert first.id is not None
    finish_all(connection, name)
    for times in (1, 2):
        found = sent(connection, trigger, "k")
        assert (found.ignored, found.last_request is None) == (times, False)
        retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=6), pause=lambda _: None)
        assert duplicates.summary(connection, first.id).last_request is None
        connection.commit()


def test_with_a_work_order_goes_what_was_counted_for_it(connection: Connection, trigger: Trigger, name: str) -> None:
    keeping(connection, name, delete_after="10d")
    made = send(connection, trigger, "k")
    finish_all(connection, name)
    send(connection, trigger, "k")
    retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=11), pause=lambda _: None)
    assert send(connection, trigger, "k") == CreateResult(None, "deleted", created=False)
    row = connection.execute(
        "SELECT count(*) FROM workorders.ignored_repeats WHERE work_order_id = %s", (made.id,)
    ).fetchone()
    assert row == (0,)


def test_each_look_for_counts_without_a_work_order_has_a_bound(connection: Connection, trigger: Trigger) -> None:
    connection.execute("DELETE FROM workorders.ignored_repeats")
    ids = sorted(uuid4() for _ in range(5))
    connection.execute(
        "INSERT INTO workorders.ignored_repeats (work_order_id, count, last_at) SELECT unnest(%s::uuid[]), 1, now()",
        [ids],
    )
    ends, left = [UUID(int=0)], list[int]()
    while (end := duplicates.delete_orphans(connection, after=ends[-1], limit=2)) is not None:
        ends.append(end)
        left.append(fetch_row(connection, "SELECT count(*) FROM workorders.ignored_repeats", {})[0])
    assert (ends[1:], left) == ([ids[1], ids[3], ids[4]], [3, 1, 0])
