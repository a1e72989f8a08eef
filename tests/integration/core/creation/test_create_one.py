from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from support.admission import BY_ID, event, ids, limit, register, wait_for_lock
from support.work_orders import accepted, keys, rejected
from workorders.core import triggers
from workorders.core.admission import duplicates
from workorders.core.attribution import Attribution
from workorders.core.creation.create_one import CreateResult, NotAnInputError, create_by_hand, create_one
from workorders.core.creation.work_orders import Created, create_for
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

ADA = Attribution("ada", "a test")


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
    first = create_one(connection, trigger, accepted(None, None), key=key)
    again = create_one(connection, trigger, accepted(None, None, b'{"b":2}'), key=key)
    assert first.created
    assert again == CreateResult(first.id, "pending", created=False)
    assert len(ids(connection, trigger)) == 1


def test_a_position_that_was_there_is_found(connection: Connection, trigger: Trigger) -> None:
    first = create_one(connection, trigger, accepted("s", 7))
    assert create_one(connection, trigger, accepted("s", 7)) == CreateResult(first.id, "pending", created=False)


def delete(connection: Connection, made: CreateResult) -> None:
    connection.execute("DELETE FROM workorders.dataclips WHERE id = %s", (made.id,))
    connection.execute("DELETE FROM workorders.work_orders WHERE id = %s", (made.id,))


def test_a_deleted_work_order_does_not_come_back(connection: Connection, trigger: Trigger) -> None:
    made = create_one(connection, trigger, accepted(None, None), key="a")
    delete(connection, made)
    assert create_one(connection, trigger, accepted(None, None), key="a") == CreateResult(
        None, "deleted", created=False
    )
    assert keys(connection, trigger) == []


DAY = 86_400.0


def pass_days(connection: Connection, trigger: Trigger, days: int) -> None:
    """Let time pass for the keys of a trigger. A key expires by the start of a transaction, so this one ends here."""
    connection.execute(
        """
        UPDATE workorders.idempotency_keys SET expires_at = expires_at - make_interval(days => %s)
        WHERE trigger_id = %s
        """,
        (days, trigger.id),
    )
    connection.commit()


@pytest.mark.parametrize("deleted", [True, False])
def test_a_key_is_known_for_its_time_and_free_afterwards_whether_or_not_its_work_order_is_there(
    connection: Connection, trigger: Trigger, *, deleted: bool
) -> None:
    made = create_one(connection, trigger, accepted(None, None), key="a", key_seconds=30 * DAY)
    if deleted:
        delete(connection, made)
    pass_days(connection, trigger, 29)
    again = create_one(connection, trigger, accepted(None, None), key="a", key_seconds=30 * DAY)
    assert again == CreateResult(None if deleted else made.id, "deleted" if deleted else "pending", created=False)
    pass_days(connection, trigger, 1)
    new = create_one(connection, trigger, accepted(None, None), key="a", key_seconds=30 * DAY)
    assert new.created
    assert new.id != made.id
    assert create_one(connection, trigger, accepted(None, None), key="a", key_seconds=30 * DAY).id == new.id


def test_a_key_without_a_time_is_known_without_end(connection: Connection, trigger: Trigger) -> None:
    made = create_one(connection, trigger, accepted(None, None), key="a")
    pass_days(connection, trigger, 100_000)
    assert create_one(connection, trigger, accepted(None, None), key="a", key_seconds=DAY).id == made.id


def test_every_new_key_deletes_more_than_one_whose_time_is_over(connection: Connection, trigger: Trigger) -> None:
    for number in range(8):
        create_one(connection, trigger, accepted(None, None), key=f"old-{number}", key_seconds=DAY)
    create_one(connection, trigger, accepted(None, None), key="unlimited")
    pass_days(connection, trigger, 2)
    for number, left in enumerate([5, 2, 0]):
        create_one(connection, trigger, accepted(None, None), key=f"new-{number}", key_seconds=DAY)
        assert keys_kept(connection, trigger) == left + number + 2


def keys_kept(connection: Connection, trigger: Trigger) -> int:
    row = connection.execute(
        "SELECT count(*) FROM workorders.idempotency_keys WHERE trigger_id = %s", (trigger.id,)
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("expired", [True, False])
def test_two_callers_with_one_key_at_once_get_one_work_order(
    stack: LocalStack, connection: Connection, trigger: Trigger, *, expired: bool
) -> None:
    if expired:
        create_one(connection, trigger, accepted(None, None), key="a", key_seconds=DAY)
        pass_days(connection, trigger, 1)
        connection.commit()

    def create(_: int) -> CreateResult:
        with connect(stack.database_url) as own:
            return create_one(own, trigger, accepted(None, None), key="a", key_seconds=DAY)

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(create, range(8)))
    assert sum(single.created for single in made) == 1
    (id_,) = {single.id for single in made}
    assert id_ is not None
    assert duplicates.summary(connection, id_).ignored == 7


@pytest.mark.parametrize("commits", [True, False])
def test_of_two_first_requests_at_once_the_second_waits_and_gets_the_work_order_of_the_first(
    stack: LocalStack, connection: Connection, other: Connection, trigger: Trigger, *, commits: bool
) -> None:
    first = create_one(connection, trigger, accepted(None, None), key="a")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(create_one, other, trigger, accepted(None, None), key="a")
        wait_for_lock(stack.database_url, other)
        assert not second.done()
        if commits:
            connection.commit()
        else:
            connection.rollback()
        made = second.result(30)
    other.commit()
    assert made.created is not commits
    assert (made.id == first.id) is commits
    assert ids(connection, trigger) == [made.id]
    assert made.id is not None
    assert duplicates.summary(connection, made.id).ignored == commits


def test_a_rejected_event_and_its_repeat_at_once_leave_one_rejected_work_order(
    stack: LocalStack, connection: Connection, other: Connection, trigger: Trigger
) -> None:
    first = create_one(connection, trigger, rejected(None, None), key="a")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(create_one, other, trigger, rejected(None, None), key="a")
        wait_for_lock(stack.database_url, other)
        connection.commit()
        assert second.result(30) == replace(first, created=False)
    other.commit()
    assert ids(connection, trigger) == [first.id]


def test_equal_keys_of_two_scopes_are_two_events(connection: Connection, trigger: Trigger) -> None:
    first, second = (create_one(connection, trigger, accepted(None, None), key="a", key_scope=at) for at in "xy")
    assert first.created
    assert second.created


def test_a_key_stays_with_a_work_order_that_a_limit_rejects(connection: Connection, name: str) -> None:
    register(connection, name)
    limit(connection, name, max_waiting=1, on_reached="reject")
    trigger = triggers.find(connection, name)
    create_one(connection, trigger, accepted(None, None))
    rejected_ = create_one(connection, trigger, accepted(None, None), key="a")
    assert rejected_.reason == "run-limit"
    assert create_one(connection, trigger, accepted(None, None), key="a") == replace(rejected_, created=False)


@pytest.fixture
def ignoring(connection: Connection, name: str) -> Trigger:
    """A trigger with `on_duplicate: ignore`."""
    return register(connection, name, idempotency=BY_ID | {"on_duplicate": "ignore"})


def test_an_ignored_repeat_leaves_no_work_order_and_gets_the_first(connection: Connection, ignoring: Trigger) -> None:
    first = create_one(connection, ignoring, event(None, id="a"))
    assert create_one(connection, ignoring, event(None, id="a")) == replace(first, created=False)
    assert create_one(connection, ignoring, event(None, id="b")).created
    assert len(ids(connection, ignoring)) == 2
    assert first.id is not None
    assert duplicates.summary(connection, first.id).ignored == 1


def test_of_two_at_once_with_an_ignored_key_the_second_waits_and_leaves_nothing(
    stack: LocalStack, connection: Connection, other: Connection, ignoring: Trigger
) -> None:
    first = create_one(connection, ignoring, event(None, id="a"))
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(create_one, other, ignoring, event(None, id="a"), key="another", key_seconds=DAY)
        wait_for_lock(stack.database_url, other)
        connection.commit()
        assert second.result(30) == replace(first, created=False)
    other.commit()
    assert ids(connection, ignoring) == [first.id]
    assert keys_kept(connection, ignoring) == 1  # the caller's own key is released, and names the first next time
    assert create_one(connection, ignoring, event(None, id="a"), key="another").id == first.id


def test_ignored_repeats_of_one_call_are_counted_for_the_holder_of_their_key(
    connection: Connection, ignoring: Trigger
) -> None:
    items = [event(None, id=id_) for id_ in "abaab"]
    assert create_for(connection, ignoring, items) == Created(created=2, ignored=3)
    first, second = ids(connection, ignoring)
    assert [duplicates.summary(connection, id_).ignored for id_ in (first, second)] == [2, 1]
    assert create_for(connection, ignoring, items, fresh=True) == Created(ignored=5)


def test_a_repeat_with_a_position_is_never_ignored(connection: Connection, ignoring: Trigger) -> None:
    create_for(connection, ignoring, [event(0, id="a")])
    assert create_for(connection, ignoring, [event(1, id="a")]) == Created(0, 1, 0, 1)
    assert create_for(connection, ignoring, [event(1, id="a")]) == Created(existing=1)


def test_ignored_repeats_use_no_capacity(connection: Connection, ignoring: Trigger) -> None:
    limit(connection, ignoring.workflow, max_waiting=2, on_reached="wait")
    limited = triggers.find(connection, ignoring.name)
    create_for(connection, limited, [event(None, id=id_) for id_ in "aab"])
    assert create_one(connection, limited, event(None, id="a")).created is False
    assert len(ids(connection, ignoring)) == 2


def test_what_a_person_creates_records_the_actor_and_the_reason(connection: Connection, trigger: Trigger) -> None:
    made = create_by_hand(connection, trigger, b"{}", ADA, key="k")
    request = work_orders.get_work_order(connection, made.id or UUID(int=0)).request
    assert request is not None
    for part in ('"actor": "ada"', '"reason": "a test"', '"key": "k"'):
        assert part in request


def test_a_persons_key_creates_nothing_twice_and_no_key_is_an_event_of_its_own(
    connection: Connection, trigger: Trigger
) -> None:
    first = create_by_hand(connection, trigger, b"{}", ADA, key="k")
    again = create_by_hand(connection, trigger, b"{}", ADA, key="k")
    assert again == CreateResult(first.id, "pending", created=False)
    assert create_by_hand(connection, trigger, b"{}", ADA).id != create_by_hand(connection, trigger, b"{}", ADA).id


@pytest.mark.parametrize("body", [b"", b"[]", b"{", rb'{"a":"\u0000"}', b'{"a":1e-9999}'])
def test_what_a_person_gives_that_is_no_input_is_refused_and_creates_nothing(
    connection: Connection, trigger: Trigger, body: bytes
) -> None:
    with pytest.raises(NotAnInputError, match=r"must be a JSON object, and .*; nothing was created\."):
        create_by_hand(connection, trigger, body, ADA)
    assert work_orders.count_by_state(connection, Filter(trigger=trigger.name)) == {}
