"""In a workflow whose ordering keys are the sequences, runs are claimed in the order of the numbers."""

import random
from uuid import uuid4

import pytest

from support.admission import BY_NUMBER, event
from support.working import Working
from workorders.core import triggers
from workorders.core.admission import gaps
from workorders.core.attribution import Attribution
from workorders.core.definitions.trigger import Sequence
from workorders.core.postgres.connection import Connection

pytestmark = pytest.mark.integration


@pytest.fixture
def working(connection: Connection, name: str) -> Working:
    made = Working.on(connection, name, ordering_key="body:/key")
    rule = Sequence.model_validate(BY_NUMBER).model_dump(mode="json")
    triggers.register(connection, name=name, type_="test", workflow=name, definition={"sequence": rule})
    connection.commit()
    return Working(connection, made.workflow, triggers.find(connection, name))


def come(working: Working, *numbers: int, start: int, key: str = "k") -> None:
    working.create(event(place, key=key, number=number) for place, number in enumerate(numbers, start))


def claimed(working: Working, limit: int = 100, *, finish: bool = True) -> list[int]:
    """Claim, finish what was claimed, and return the numbers in the order in which they are processed."""
    found = working.claim(limit, uuid4())
    if finish:
        ids = [run.work_order_id for run in found]
        working.connection.execute(
            "UPDATE workorders.runs SET state = 'success', finished_at = now() WHERE work_order_id = ANY (%s)", (ids,)
        )
        working.connection.execute("UPDATE workorders.work_orders SET state = 'success' WHERE id = ANY (%s)", (ids,))
    working.connection.commit()
    numbers = [
        working.connection.execute(
            "SELECT (body -> 'number')::integer FROM workorders.dataclips WHERE id = %s", (run.work_order_id,)
        ).fetchone()
        for run in found
    ]
    working.connection.commit()
    return [number[0] for number in numbers if number]


def test_what_arrived_in_the_wrong_order_is_claimed_in_the_right_one(working: Working) -> None:
    come(working, 3, 2, 1, start=0)
    assert claimed(working) == [1, 2, 3]


def test_what_was_released_comes_behind_what_filled_the_gap_and_what_waited_before(working: Working) -> None:
    come(working, 1, 4, 3, start=0)
    come(working, 2, start=3)
    come(working, 5, start=4)
    assert [claimed(working, 1) for _ in range(5)] == [[1], [2], [3], [4], [5]]


def test_one_group_may_have_them_all(working: Working) -> None:
    come(working, 1, 4, 3, start=0)
    come(working, 2, 5, start=3)
    assert claimed(working) == [1, 2, 3, 4, 5]


def test_what_an_operator_releases_is_claimed_in_order(working: Working) -> None:
    come(working, 9, 4, 7, start=0)
    gaps.release(
        working.connection, working.trigger, gaps.find(working.connection, working.trigger, "k"), Attribution("a", "b")
    )
    working.connection.commit()
    assert claimed(working) == [4, 7, 9]


def test_a_sequence_in_order_needs_no_places(working: Working) -> None:
    def places() -> object:
        found = working.connection.execute(
            "SELECT count(*) FROM workorders.sequence_places WHERE trigger_id = %s", (working.trigger.id,)
        ).fetchone()
        working.connection.commit()
        return found

    come(working, 1, 2, start=0)
    assert places() == (0,)
    come(working, 4, 3, start=2)
    assert places() == (2,)
    claimed(working)
    come(working, 5, start=4)
    assert places() == (0,)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_order_of_arrival_each_ordering_key_is_claimed_by_number(working: Working, seed: int) -> None:
    chance = random.Random(seed)
    coming = [(key, number) for key in "abc" for number in range(1, 13)]
    chance.shuffle(coming)
    worked: dict[str, list[int]] = {key: [] for key in "abc"}
    place = 0

    def work(limit: int) -> int:
        group = working.claim_as_worker(limit)
        for run in group.claimed:
            row = working.connection.execute(
                "SELECT body ->> 'key', (body -> 'number')::integer FROM workorders.dataclips WHERE id = %s",
                (run.work_order_id,),
            ).fetchone()
            assert row is not None
            worked[row[0]].append(row[1])
        group.succeed()
        return len(group.claimed)

    while place < len(coming):
        size = chance.randint(1, 8)
        working.create(
            event(at, key=key, number=number) for at, (key, number) in enumerate(coming[place : place + size], place)
        )
        place += size
        if chance.random() < 0.6:
            work(chance.randint(1, 6))
    while work(chance.randint(1, 6)):
        pass
    assert worked == {key: list(range(1, 13)) for key in "abc"}
