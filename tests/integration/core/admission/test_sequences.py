"""Events of one key are let in by their numbers; what lies beyond a gap is parked, and nothing is lost."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from local_stack.stack import LocalStack
from support.admission import BY_NUMBER, event, ids, outcome, register, wait_for_lock
from support.work_orders import remove
from workorders.core.creation import work_orders
from workorders.core.creation.work_orders import Created, create_for
from workorders.core.history.work_orders import get_work_order
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    return register(connection, name, sequence=BY_NUMBER)


def numbers(*given: int, start: int = 0, key: str = "k", stream: str = "s") -> list[Item]:
    return [event(place, stream, key=key, number=number) for place, number in enumerate(given, start)]


def sequences_of(connection: Connection, trigger: Trigger) -> list[tuple[str, int | None, int]]:
    return connection.execute(
        "SELECT name, high_water_mark, parked FROM workorders.sequences WHERE trigger_id = %s ORDER BY name",
        (trigger.id,),
    ).fetchall()


def states(connection: Connection, trigger: Trigger) -> list[tuple[int, str]]:
    return [(number, state) for number, state, _ in outcome(connection, trigger, "number")]


@pytest.mark.parametrize("fresh", [True, False])
def test_what_lies_beyond_a_gap_is_parked_until_the_gap_is_filled(
    connection: Connection, trigger: Trigger, fresh: bool
) -> None:
    assert create_for(connection, trigger, numbers(1, 4, 3), fresh=fresh) == Created(3, 0, 0)
    connection.commit()
    assert states(connection, trigger) == [(1, "pending"), (4, "parked"), (3, "parked")]
    assert sequences_of(connection, trigger) == [('"k"', 1, 2)]
    create_for(connection, trigger, numbers(2, start=3), fresh=fresh)
    assert {state for _, state in states(connection, trigger)} == {"pending"}
    assert sequences_of(connection, trigger) == [('"k"', 4, 0)]


def test_a_sequence_may_begin_with_the_first_number_to_arrive(connection: Connection, name: str) -> None:
    trigger = register(connection, name, sequence={**BY_NUMBER, "start": "first"})
    create_for(connection, trigger, numbers(7, 10, 8, 6), fresh=True)
    assert states(connection, trigger) == [(7, "pending"), (10, "parked"), (8, "pending"), (6, "rejected")]


def test_a_number_that_comes_again_is_a_duplicate(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, numbers(1, 3), fresh=True)
    assert create_for(connection, trigger, numbers(1, 3, start=2), fresh=True) == Created(0, 2, 0, 2)
    assert outcome(connection, trigger, "number")[2:] == [(1, "rejected", "duplicate"), (3, "rejected", "duplicate")]
    _, parked, _, repeat = ids(connection, trigger)
    assert get_work_order(connection, repeat).duplicate_of == parked


def test_a_number_may_be_digits_and_is_else_no_number(connection: Connection, trigger: Trigger) -> None:
    given = ["1", 2, "03", 4.0, 4.5, True, "x", "", "9" * 30, 2**63, None]
    items = [event(place, key="k", number=number) for place, number in enumerate(given)]
    assert create_for(connection, trigger, items, fresh=True) == Created(3, 8, 0, 8)
    assert {code for _, state, code in outcome(connection, trigger, "number") if state == "rejected"} == {
        "no-sequence-number"
    }


def test_an_event_without_a_key_is_held_to_no_order(connection: Connection, trigger: Trigger) -> None:
    assert create_for(connection, trigger, [event(0, number=9), event(1, number=9)], fresh=True) == Created(2, 0, 0)


def test_a_replay_changes_nothing(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, numbers(1, 3, 1), fresh=True)
    connection.commit()
    before = (outcome(connection, trigger, "number"), sequences_of(connection, trigger))
    assert create_for(connection, trigger, numbers(1, 3, 1)) == Created(0, 0, 3)
    assert (outcome(connection, trigger, "number"), sequences_of(connection, trigger)) == before


def test_a_parked_work_order_that_a_replay_restores_is_parked_again(connection: Connection, trigger: Trigger) -> None:
    create_for(connection, trigger, numbers(1, 3), fresh=True)
    remove(connection, trigger, [1])
    assert create_for(connection, trigger, numbers(1, 3)) == Created(1, 0, 1)
    create_for(connection, trigger, numbers(2, start=2), fresh=True)
    assert states(connection, trigger) == [(1, "pending"), (3, "pending"), (2, "pending")]


@pytest.mark.parametrize("commits", [True, False])
def test_two_transactions_take_turns_at_a_key(
    stack: LocalStack, connection: Connection, other: Connection, trigger: Trigger, commits: bool
) -> None:
    create_for(connection, trigger, numbers(1), fresh=True)
    connection.commit()
    create_for(connection, trigger, numbers(2, start=1), fresh=True)

    def third() -> Created:
        with other.transaction():
            return create_for(other, trigger, numbers(3, stream="t"), fresh=True)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(third)
        wait_for_lock(stack.database_url, other)
        if commits:
            connection.commit()
        else:
            connection.rollback()
        assert waiting.result(30) == Created(1, 0, 0)
    assert states(connection, trigger)[-1] == (3, "pending" if commits else "parked")


def test_many_transactions_that_share_keys_never_wait_in_a_circle(
    stack: LocalStack, connection: Connection, trigger: Trigger
) -> None:
    """Every number of every key comes once, each in its own transaction and order."""
    keys = [f"k{number}" for number in range(40)]

    def run(number: int) -> None:
        shuffled = random.Random(number).sample(keys, len(keys))
        items = [event(place, f"s{number}", key=key, number=number) for place, key in enumerate(shuffled)]
        with connect(stack.database_url, application_name=f"test {number}") as own, own.transaction():
            create_for(own, trigger, items, fresh=True)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, random.Random(7).sample(range(1, 13), 12)))
    assert sequences_of(connection, trigger) == [(f'"{key}"', 12, 0) for key in sorted(keys)]
    assert {state for _, state in states(connection, trigger)} == {"pending"}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_order_and_the_batches_the_same_work_orders_are_let_in(
    connection: Connection, trigger: Trigger, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_orders, "CHUNK_ITEMS", 7)
    chance = random.Random(seed)
    last = {key: chance.randint(1, 20) for key in "abc"}
    gap = {key: chance.randint(1, end) for key, end in last.items()}
    coming = [(key, number) for key, end in last.items() for number in range(1, end + 1) if number != gap[key]]
    coming += chance.choices(coming, k=8) if coming else []
    chance.shuffle(coming)
    items = [event(place, key=key, number=number) for place, (key, number) in enumerate(coming)]
    place = 0
    while place < len(items):
        size = chance.randint(1, 12)
        with connection.transaction():
            create_for(connection, trigger, items[place : place + size], fresh=True)
        if chance.random() < 0.3:
            create_for(connection, trigger, items[max(0, place - 9) : place + size])
            connection.commit()
        place += size
    found = [
        (event_["key"], event_["number"], state)
        for event_, state in connection.execute(
            """
            SELECT coalesce(body, convert_from(raw, 'UTF8')::jsonb), state::text FROM workorders.work_orders
            LEFT JOIN workorders.dataclips USING (id)
            LEFT JOIN workorders.rejections ON work_order_id = work_orders.id WHERE trigger_id = %s
            """,
            (trigger.id,),
        )
    ]
    expected_pending = {(key, number) for key in last for number in range(1, gap[key])}
    expected_parked = {(key, number) for key, end in last.items() for number in range(gap[key] + 1, end + 1)}
    assert len(found) == len(coming)
    assert sorted((key, number) for key, number, state in found if state == "pending") == sorted(expected_pending)
    assert sorted((key, number) for key, number, state in found if state == "parked") == sorted(expected_parked)
    marks = {name.strip('"'): mark for name, mark, _ in sequences_of(connection, trigger)}
    assert marks == {key: gap[key] - 1 for key in {key for key, _ in coming}}
