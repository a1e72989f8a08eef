from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from local_stack.stack import LocalStack
from support.working import Working, positions
from workorders.core import triggers
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.workers import add_worker

pytestmark = pytest.mark.integration

Make = Callable[..., Working]


@pytest.fixture
def working(connection: Connection, name: str) -> Make:
    """Registers a workflow with some fields."""

    def make(**fields: Any) -> Working:
        return Working.on(connection, name, **fields)

    return make


def in_parallel(stack: LocalStack, work: Callable[[Connection], Any], threads: int = 4) -> list[Any]:
    """Let this many threads begin at once, each with its own connection."""
    barrier = Barrier(threads)

    def run(_number: int) -> Any:
        with connect(stack.database_url) as own:
            barrier.wait()
            return work(own)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def test_waiting_work_orders_are_claimed_oldest_first_with_their_input(working: Make) -> None:
    at = working()
    at.create_some(5)
    first, second = at.claim(2)
    assert (first.position, first.attempt, first.stream) == (0, 1, "s")
    assert (first.body, first.request, first.trigger) == (b'{"a": 1}', b'{"from": "a test"}', at.trigger.name)
    assert second.position == 1
    assert positions(at.claim(10)) == [2, 3, 4]
    assert at.claim() == []
    assert at.states() == ["running"] * 5


def test_a_claim_for_nothing_claims_nothing(working: Make) -> None:
    at = working()
    at.create_some(1)
    assert at.claim(0) == []
    assert at.states() == ["pending"]


def test_what_was_claimed_is_pending_again_when_the_transaction_rolls_back(working: Make) -> None:
    at = working()
    at.create_some(3)
    assert (
        len(claiming.claim(at.connection, at.workflow, limit=2, worker_id=add_worker(at.connection, at.workflow))) == 2
    )
    at.connection.rollback()
    assert (at.states(), at.runs()) == (["pending"] * 3, [])


def test_work_orders_of_another_workflow_are_left_alone(connection: Connection, name: str) -> None:
    busy, other = Working.on(connection, f"{name}-busy"), Working.on(connection, f"{name}-other")
    busy.create_some(50)
    other.create_some(1)
    assert len(other.claim()) == 1
    assert set(busy.states()) == {"pending"}


def test_work_orders_wait_for_a_workflow_that_only_a_trigger_has_named(connection: Connection, name: str) -> None:
    trigger = triggers.register(connection, name=name, type_="test", workflow=name, definition={})
    assert trigger.workflow == name
    later = Working.on(connection, name)
    assert (later.trigger.workflow_id, later.workflow.id) == (trigger.workflow_id, trigger.workflow_id)


def test_a_rerun_by_a_person_goes_before_everything_that_waits(working: Make) -> None:
    at = working()
    at.create_some(4)
    at.claim_as_worker(1).succeed()
    at.rerun(0)
    claimed = at.claim(2)
    assert [(run.position, run.attempt) for run in claimed] == [(0, 2), (1, 1)]


def test_a_claim_holds_no_more_than_it_takes(working: Make, stack: LocalStack) -> None:
    at = working()
    at.create_some(6)
    at.claim_as_worker(1).succeed()
    at.rerun(0)
    claimed = claiming.claim(at.connection, at.workflow, limit=2, worker_id=add_worker(at.connection, at.workflow))
    assert positions(claimed) == [0, 1]
    with connect(stack.database_url) as other:
        assert positions(at.through(other).claim(10)) == [2, 3, 4, 5]
    at.connection.commit()


@pytest.mark.parametrize("fields", [{}, {"concurrency": 100}], ids=str)
def test_the_oldest_is_first_whenever_it_appears(working: Make, fields: dict[str, Any]) -> None:
    at = working(**fields)
    at.create_some(9)
    assert positions(at.claim(2)) == [0, 1]
    at.put_back(0)
    assert positions(at.claim(2)) == [0, 2]


def test_of_runs_that_are_due_the_urgent_come_first_and_then_the_older(working: Make) -> None:
    at = working()
    at.create_some(4)
    at.claim_as_worker(4).succeed()
    for position, priority in ((3, 1), (2, 0), (1, 1), (0, 0)):
        at.rerun(position, priority=priority)
    assert positions(at.claim()) == [2, 0, 3, 1]


def test_a_run_is_not_claimed_before_it_is_due(working: Make) -> None:
    at = working(retries={"max_retries": 1, "first_delay": 3600})
    at.create_some(1)
    at.claim_as_worker().finish("failed")
    assert (at.states(), at.claim()) == (["requeued"], [])
    at.make_due()
    assert [run.attempt for run in at.claim()] == [2]


def test_work_orders_that_wait_for_a_retry_neither_delay_a_claim_nor_fill_it(working: Make) -> None:
    at = working(retries={"max_retries": 1, "first_delay": 3600})
    at.create_some(20)
    at.claim_as_worker().fail()
    at.create_some(3, start=20)
    assert (positions(at.claim(2)), positions(at.claim(2)), at.claim(2)) == ([20, 21], [22], [])


@pytest.mark.parametrize("fields", [{}, {"concurrency": 1000}, {"ordering_key": "stream"}], ids=str)
def test_a_released_run_is_claimed_before_those_that_were_never_claimed(working: Make, fields: dict[str, Any]) -> None:
    at = working(**fields)
    at.create_some(3)
    worker = at.claim_as_worker(1)
    lifecycle.release(at.connection, worker.id, worker.run_ids)
    at.connection.commit()
    assert at.states() == ["requeued", "pending", "pending"]
    again = at.claim_as_worker()
    assert (again.positions, again.run_ids[0]) == ([0, 1, 2], worker.run_ids[0])


@pytest.mark.parametrize("fields", [{}, {"concurrency": 1000}, {"ordering_key": "body:/a"}], ids=str)
def test_no_run_is_claimed_twice_by_claims_at_the_same_time(
    working: Make, stack: LocalStack, fields: dict[str, Any]
) -> None:
    at = working(**fields)
    at.create_some(200)

    def claim_all(own: Connection) -> list[int | None]:
        mine, found = at.through(own), []
        while claimed := mine.claim(7):
            found += positions(claimed)
        return found

    found = Counter(position for each in in_parallel(stack, claim_all) for position in each)
    assert set(found.values()) == {1}
    # One ordering key belongs to one worker until that worker has finished it.
    assert len(found) == (7 if "ordering_key" in fields else 200)


@pytest.mark.parametrize("fields", [{}, {"ordering_key": "stream"}], ids=str)
def test_claims_at_the_same_time_never_exceed_the_concurrency(
    working: Make, stack: LocalStack, fields: dict[str, Any]
) -> None:
    at = working(concurrency=5, **fields)
    for number in range(10):
        at.create_some(5, stream=f"s{number}")
    claimed = in_parallel(stack, lambda own: len(at.through(own).claim(3)))
    assert sum(claimed) == 5
    assert at.claim() == []


def test_a_concurrency_of_one_is_one_at_a_time_oldest_first(working: Make) -> None:
    at = working(concurrency=1)
    at.create_some(3)
    seen = []
    for _ in range(3):
        worker = at.claim_as_worker()
        seen.append(worker.positions)
        assert at.claim() == []
        worker.start()
        assert at.claim() == []
        worker.succeed()
    assert seen == [[0], [1], [2]]


def test_capacity_is_counted_again_when_the_concurrency_is_changed_meanwhile(working: Make) -> None:
    at = working(concurrency=4)
    at.create_some(10)
    at.claim(3)
    definition = at.workflow.definition
    assert definition is not None
    changed = Working.on(at.connection, at.workflow.name, concurrency=2)
    assert changed.claim() == []
    assert at.claim() == [], "a claim believed what it had read of the workflow before"


def test_the_runs_that_an_owner_has_are_found_again_the_oldest_first(working: Make) -> None:
    at = working()
    at.create_some(5)
    at.claim_as_worker(1).succeed()
    at.rerun(0)
    worker = at.claim_as_worker(4)
    assert claiming.claimed(at.connection, at.workflow, worker.id) == worker.claimed
    worker.finish("success")
    assert claiming.claimed(at.connection, at.workflow, worker.id) == worker.claimed[1:]
    assert claiming.claimed(at.connection, at.workflow, uuid4()) == []
