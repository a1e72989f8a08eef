"""How much may be asked of a workflow and of a trigger: exact, even if several callers ask at once."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.admission import BY_ID, BY_NUMBER, event, events, ids, limit, outcome, register, wait_for_lock
from support.work_orders import accepted_range, rejected
from workorders.core import triggers, workflows
from workorders.core.admission import limits
from workorders.core.admission.pipeline import AdmissionPipeline
from workorders.core.creation.work_orders import Created, create_for
from workorders.core.exceptions import LimitReachedError
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

SECONDS_A_DAY = 86_400


def limited(
    connection: Connection, name: str, on_reached: Any = "reject", *, rules: Any = None, **limits_: Any
) -> Trigger:
    """Return a trigger of a workflow with limits."""
    register(connection, name, **(rules or {}))
    limit(connection, name, on_reached=on_reached, **limits_)
    connection.commit()
    return triggers.find(connection, name)


def reasons(connection: Connection, trigger: Trigger) -> list[str | None]:
    return [
        row[0]
        for row in connection.execute(
            """
            SELECT code FROM workorders.work_orders LEFT JOIN workorders.rejections ON work_order_id = work_orders.id
            WHERE trigger_id = %s ORDER BY work_orders.id
            """,
            (trigger.id,),
        )
    ]


def finish(connection: Connection, trigger: Trigger, count: int) -> None:
    connection.execute(
        "UPDATE workorders.work_orders SET state = 'success' WHERE id = ANY (%s)", (ids(connection, trigger)[:count],)
    )
    connection.commit()


def yesterday(connection: Connection, trigger: Trigger) -> None:
    connection.execute(
        "UPDATE workorders.workflow_counts SET day = day - 1 WHERE workflow_id = %s", (trigger.workflow_id,)
    )
    connection.commit()


def test_a_trigger_without_limits_takes_no_turn(connection: Connection, trigger: Trigger) -> None:
    assert AdmissionPipeline.of(connection, trigger) is None
    create_for(connection, trigger, accepted_range("s", 0, 5), fresh=True)
    found = connection.execute(
        "SELECT count(*) FROM workorders.workflow_counts WHERE workflow_id = %s", (trigger.workflow_id,)
    )
    assert found.fetchone() == (0,)


@pytest.mark.parametrize("limit", ["max_waiting", "max_per_day"])
def test_what_is_beyond_a_limit_that_rejects_is_rejected_with_its_input(
    connection: Connection, name: str, limit: str
) -> None:
    trigger = limited(connection, name, **{limit: 3})
    assert create_for(connection, trigger, events("abcde"), fresh=True) == Created(3, 2, 0, 2)
    assert outcome(connection, trigger, "id") == [
        *[(id_, "pending", None) for id_ in "abc"],
        *[(id_, "rejected", "run-limit") for id_ in "de"],
    ]
    connection.commit()
    assert create_for(connection, trigger, events("f", 5), fresh=True) == Created(0, 1, 0, 1)


def test_finished_runs_make_room_among_the_waiting(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, max_waiting=3)
    create_for(connection, trigger, events("abc"), fresh=True)
    finish(connection, trigger, 2)
    assert create_for(connection, trigger, events("def", 3), fresh=True) == Created(2, 1, 0, 1)


def test_finished_runs_make_no_room_today_and_a_new_day_does(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, max_per_day=3)
    create_for(connection, trigger, events("abc"), fresh=True)
    finish(connection, trigger, 3)
    assert create_for(connection, trigger, events("d", 3), fresh=True).rejected_by_rule == 1
    yesterday(connection, trigger)
    assert create_for(connection, trigger, events("efgh", 4), fresh=True) == Created(3, 1, 0, 1)


def test_two_triggers_of_a_workflow_share_its_limit(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, max_per_day=3)
    create_for(connection, trigger, events("ab"), fresh=True)
    register(connection, f"{name}-2", workflow=name)
    another = triggers.find(connection, f"{name}-2")
    assert create_for(connection, another, events("ab"), fresh=True) == Created(1, 1, 0, 1)


def test_what_cannot_be_an_input_takes_no_room(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, max_waiting=1)
    items = [rejected("s", 0), *events("a", 1), rejected("s", 2)]
    assert create_for(connection, trigger, items, fresh=True) == Created(1, 2, 0, 0)


def test_duplicates_take_no_room(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, rules={"idempotency": BY_ID}, max_per_day=3)
    assert create_for(connection, trigger, events("aaabc"), fresh=True) == Created(3, 2, 0, 2)
    assert reasons(connection, trigger) == [None, "duplicate", "duplicate", None, None]


def test_what_found_no_room_may_come_again(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, rules={"idempotency": BY_ID}, max_per_day=1)
    create_for(connection, trigger, events("ab"), fresh=True)
    yesterday(connection, trigger)
    assert create_for(connection, trigger, events("b", 2), fresh=True) == Created(1, 0, 0)


def test_a_replay_counts_nothing(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, max_per_day=3)
    create_for(connection, trigger, events("abc"), fresh=True)
    assert create_for(connection, trigger, events("abc")) == Created(0, 0, 3)
    assert reasons(connection, trigger) == [None] * 3


def test_a_number_that_found_no_room_holds_up_those_behind_it(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, rules={"sequence": BY_NUMBER}, max_per_day=2)
    items = [event(place, key="k", number=number) for place, number in enumerate([1, 2, 3, 4])]
    create_for(connection, trigger, items, fresh=True)
    assert [state for _, state, _ in outcome(connection, trigger, "number")] == [
        *("pending", "pending", "rejected", "parked")
    ]


@pytest.mark.parametrize("limit", ["max_waiting", "max_per_day"])
def test_beyond_a_limit_that_waits_nothing_is_created_and_the_source_is_told(
    connection: Connection, name: str, limit: str
) -> None:
    trigger = limited(connection, name, "wait", **{limit: 3})
    with connection.transaction():
        create_for(connection, trigger, events("ab"), fresh=True)
    with pytest.raises(LimitReachedError) as raised, connection.transaction():
        create_for(connection, trigger, events("cd", 2), fresh=True)
    assert len(ids(connection, trigger)) == 2
    assert str(raised.value).startswith(
        f"Workflow {name} has capacity for 1 more work orders and 2 came at once: its limit is 3 "
    )
    assert f"Nothing was created for trigger {name}; it continues by itself when " in str(raised.value)
    assert raised.value.retry_after_seconds == 60
    with connection.transaction():
        assert create_for(connection, trigger, events("c", 2), fresh=True) == Created(1, 0, 0)


def test_a_batch_that_never_fits_is_reported_as_such(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, "wait", max_waiting=3)
    with pytest.raises(
        LimitReachedError, match="this number is never admitted; raise the limit or make the batches smaller"
    ):
        create_for(connection, trigger, events("abcd"), fresh=True)


def test_without_any_room_nothing_is_even_read(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, "wait", max_waiting=1)
    create_for(connection, trigger, events("a"), fresh=True)
    connection.commit()
    coming = iter(events("b", 1))
    with pytest.raises(LimitReachedError):
        create_for(connection, trigger, coming, fresh=True)
    assert next(coming, None) is not None
    finish(connection, trigger, 1)
    limits.require_capacity(connection, trigger)


def test_a_limit_that_waits_leaves_keys_and_marks_as_they_were(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, "wait", rules={"idempotency": BY_ID, "sequence": BY_NUMBER}, max_waiting=1)
    items = [event(place, id=place, key="k", number=place + 1) for place in range(2)]
    with pytest.raises(LimitReachedError), connection.transaction():
        create_for(connection, trigger, items, fresh=True)
    assert create_for(connection, trigger, items[:1], fresh=True) == Created(1, 0, 0)


def test_the_error_travels_to_another_process() -> None:
    assert str(pickle.loads(pickle.dumps(LimitReachedError("no room")))) == "no room"


def test_who_comes_second_waits_and_finds_less_room(
    stack: LocalStack, connection: Connection, other: Connection, name: str
) -> None:
    trigger = limited(connection, name, max_waiting=3)
    create_for(connection, trigger, events("ab"), fresh=True)

    def second() -> Created:
        with other.transaction():
            return create_for(other, trigger, events("cd", stream="t"), fresh=True)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second)
        wait_for_lock(stack.database_url, other)
        connection.commit()
        assert waiting.result(30) == Created(1, 1, 0, 1)


@pytest.mark.parametrize("limit", ["max_waiting", "max_per_day"])
def test_however_many_come_at_once_the_limit_is_exact(
    stack: LocalStack, connection: Connection, name: str, limit: str
) -> None:
    trigger = limited(connection, name, **{limit: 50})

    def run(number: int) -> Created:
        with connect(stack.database_url, application_name=f"test {number}") as own, own.transaction():
            return create_for(own, trigger, accepted_range(f"s{number}", 0, 9), fresh=True)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(run, range(12)))
    assert sum(result.created for result in results) == 50
    assert sum(result.rejected_by_rule for result in results) == 12 * 9 - 50


def test_the_usage_of_each_limit_is_shown_and_may_be_more_than_the_limit(connection: Connection, name: str) -> None:
    trigger = limited(connection, name, max_per_day=1)
    create_for(connection, trigger, events("ab"), fresh=True)
    assert limits.list_usage(connection, workflows.find(connection, name)) == [("new runs today (UTC)", 1, 1, "reject")]
    limited(connection, name, "wait", max_waiting=1, max_per_day=5)
    create_for(connection, register(connection, f"{name}-2"), events("c"), fresh=True)
    assert limits.list_usage(connection, workflows.find(connection, name)) == [
        ("work orders that wait", 1, 1, "wait"),
        ("new runs today (UTC)", 5, 1, "wait"),
    ]
    assert limits.list_usage(connection, workflows.find(connection, f"{name}-2")) == []
