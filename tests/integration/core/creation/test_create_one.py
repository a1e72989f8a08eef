from concurrent.futures import ThreadPoolExecutor

import pytest

from local_stack.stack import LocalStack
from support.work_orders import accepted, keys, rejected, remove
from workorders.core.admission import duplicates
from workorders.core.creation import create_one as single
from workorders.core.creation.create_one import Single, create_one
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


def ids(connection: Connection, trigger: Trigger) -> list[object]:
    rows = connection.execute("SELECT id FROM workorders.work_orders WHERE trigger_id = %s ORDER BY id", (trigger.id,))
    return [row[0] for row in rows]


def test_the_answer_names_the_work_order(connection: Connection, trigger: Trigger) -> None:
    first = create_one(connection, trigger, accepted(None, None))
    second = create_one(connection, trigger, rejected(None, None))
    assert [first.id, second.id] == ids(connection, trigger)
    assert [(first.state, first.created), (second.state, second.created)] == [("pending", True), ("rejected", True)]


def test_what_postgres_refuses_is_a_rejected_work_order_with_its_id(connection: Connection, trigger: Trigger) -> None:
    made = create_one(connection, trigger, accepted(None, None, rb'{"a":"\u0000"}'))
    assert [made.id] == ids(connection, trigger)
    assert (made.state, made.created, made.reason) == ("rejected", True, "refused-by-postgres")


@pytest.mark.parametrize("key", ["", "order-1", "x" * 100_000, "Zoë 🦉", "\udcff\0"])
def test_a_key_makes_one_work_order_however_long_it_is(connection: Connection, trigger: Trigger, key: str) -> None:
    first = create_one(connection, trigger, accepted("keys", None), key=key)
    again = create_one(connection, trigger, accepted("keys", None, b'{"b":2}'), key=key)
    assert first.created
    assert again == Single(first.id, "pending", created=False)
    assert len(ids(connection, trigger)) == 1


def test_a_position_that_was_there_is_found(connection: Connection, trigger: Trigger) -> None:
    first = create_one(connection, trigger, accepted("s", 7))
    assert create_one(connection, trigger, accepted("s", 7)) == Single(first.id, "pending", created=False)


def test_a_deleted_work_order_does_not_come_back(connection: Connection, trigger: Trigger) -> None:
    made = create_one(connection, trigger, accepted("keys", None), key="a")
    connection.execute("DELETE FROM workorders.dataclips WHERE id = %s", (made.id,))
    connection.execute("DELETE FROM workorders.work_orders WHERE id = %s", (made.id,))
    assert create_one(connection, trigger, accepted("keys", None), key="a") == Single(None, "deleted", created=False)
    assert keys(connection, trigger) == []


DAY = 86_400.0


def pass_days(connection: Connection, trigger: Trigger, days: int) -> None:
    connection.execute(
        """
        UPDATE workorders.source_keys SET expires_at = expires_at - make_interval(days => %s)
        FROM workorders.source_streams WHERE source_streams.id = source_keys.stream_id AND trigger_id = %s
        """,
        (days, trigger.id),
    )


@pytest.mark.parametrize("deleted", [True, False])
def test_a_key_is_known_for_its_time_and_free_afterwards_whether_or_not_its_work_order_is_there(
    connection: Connection, trigger: Trigger, *, deleted: bool
) -> None:
    made = create_one(connection, trigger, accepted("keys", None), key="a", key_seconds=30 * DAY)
    if deleted:
        remove(connection, trigger, [place for _, place in keys(connection, trigger) if place is not None])
    pass_days(connection, trigger, 29)
    again = create_one(connection, trigger, accepted("keys", None), key="a", key_seconds=30 * DAY)
    assert again == Single(None if deleted else made.id, "deleted" if deleted else "pending", created=False)
    pass_days(connection, trigger, 1)
    new = create_one(connection, trigger, accepted("keys", None), key="a", key_seconds=30 * DAY)
    assert new.created
    assert new.id != made.id
    assert create_one(connection, trigger, accepted("keys", None), key="a", key_seconds=30 * DAY).id == new.id


def test_a_key_without_a_time_is_known_for_ever(connection: Connection, trigger: Trigger) -> None:
    made = create_one(connection, trigger, accepted("keys", None), key="a")
    pass_days(connection, trigger, 100_000)
    assert create_one(connection, trigger, accepted("keys", None), key="a", key_seconds=DAY).id == made.id


def test_every_new_key_deletes_more_than_one_whose_time_is_over(connection: Connection, trigger: Trigger) -> None:
    for number in range(8):
        create_one(connection, trigger, accepted("keys", None), key=f"old-{number}", key_seconds=DAY)
    create_one(connection, trigger, accepted("keys", None), key="for ever")
    pass_days(connection, trigger, 2)
    for number, left in enumerate([5, 2, 0]):
        create_one(connection, trigger, accepted("keys", None), key=f"new-{number}", key_seconds=DAY)
        assert keys_kept(connection, trigger) == left + number + 2


def keys_kept(connection: Connection, trigger: Trigger) -> int:
    row = connection.execute(
        """
        SELECT count(*) FROM workorders.source_keys
        JOIN workorders.source_streams ON source_streams.id = stream_id WHERE trigger_id = %s
        """,
        (trigger.id,),
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_keys_go_by_the_index_of_their_times(connection: Connection) -> None:
    connection.execute("SET LOCAL enable_seqscan = off")
    plan = "\n".join(row[0] for row in connection.execute("EXPLAIN " + single._QUERIES["expire_keys"], {"limit": 3}))
    assert "source_keys_expires_at_idx" in plan
    assert "Seq Scan" not in plan


@pytest.mark.parametrize("expired", [True, False])
def test_two_callers_with_one_key_at_once_get_one_work_order(
    stack: LocalStack, connection: Connection, trigger: Trigger, *, expired: bool
) -> None:
    if expired:
        create_one(connection, trigger, accepted("keys", None), key="a", key_seconds=DAY)
        pass_days(connection, trigger, 1)
        connection.commit()

    def create(_: int) -> Single:
        with connect(stack.database_url) as own:
            return create_one(own, trigger, accepted("keys", None), key="a", key_seconds=DAY)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(create, range(8)))
    assert sum(single.created for single in made) == 1
    (id_,) = {single.id for single in made}
    assert id_ is not None
    assert duplicates.of(connection, id_).by_key == 7
