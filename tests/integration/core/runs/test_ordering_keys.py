import json
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from support.work_orders import REQUEST
from support.working import Working, positions
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.workers import add_worker

pytestmark = pytest.mark.integration


def keyed(position: int, key: str | None, stream: str = "s") -> Item:
    return Item(stream, position, json.dumps({"key": key}).encode(), b'{"a":1}')


@pytest.fixture
def by_key(connection: Connection, name: str) -> Working:
    """A workflow with an ordering key for each message key."""
    return Working.on(connection, name, ordering_key="key", retries={"max_retries": 1, "first_delay": 3600})


def stored_ordering_keys(working: Working) -> list[int | None]:
    return [
        ordering_key
        for (ordering_key,) in working.connection.execute(
            "SELECT ordering_key FROM workorders.work_orders WHERE workflow_id = %s ORDER BY position",
            (working.workflow.id,),
        )
    ]


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "not fresh"])
def test_work_orders_with_the_same_key_have_the_same_ordering_key_however_they_are_written(
    by_key: Working, fresh: bool
) -> None:
    by_key.create([keyed(0, "a"), keyed(1, "b"), keyed(2, "a"), keyed(3, None)], fresh=fresh)
    first, second, third, none = stored_ordering_keys(by_key)
    assert (first, none) == (third, None)
    assert first is not None
    assert first != second


def test_a_work_order_has_no_ordering_key_where_the_workflow_has_none(connection: Connection, name: str) -> None:
    plain = Working.on(connection, name)
    plain.create([keyed(0, "a")])
    assert stored_ordering_keys(plain) == [None]


def test_an_ordering_key_belongs_to_one_worker_and_other_ordering_keys_continue(by_key: Working) -> None:
    by_key.create([keyed(0, "a"), keyed(1, "a"), keyed(2, "b"), keyed(3, "a")])
    assert by_key.claim_as_worker(2).positions == [0, 1]
    assert by_key.claim_as_worker().positions == [2]
    assert by_key.claim() == []


def test_an_ordering_key_continues_where_its_worker_has_finished(by_key: Working) -> None:
    by_key.create([keyed(0, "a"), keyed(1, "a"), keyed(2, "a")])
    worker = by_key.claim_as_worker(2)
    worker.start()
    worker.finish("success")
    assert by_key.claim() == []
    worker.finish("success", "success")
    assert by_key.claim_as_worker().positions == [2]


def test_the_order_in_an_ordering_key_is_the_sources_whatever_clock_made_the_rows(by_key: Working) -> None:
    # Rows of a machine whose clock is ahead: what comes first in the source was made last.
    by_key.create([keyed(5, "a"), keyed(6, "a")])
    by_key.create([keyed(3, "a"), keyed(4, "a")])
    by_key.create([keyed(0, "a"), keyed(1, "a"), keyed(2, "a")])
    seen: list[int | None] = []
    while (worker := by_key.claim_as_worker(2)).claimed:
        seen += worker.positions
        worker.succeed()
    assert seen == [0, 1, 2, 3, 4, 5, 6]


def test_events_without_a_value_for_the_ordering_key_wait_for_no_other(by_key: Working) -> None:
    by_key.create([keyed(0, None), keyed(1, None), keyed(2, "a")])
    assert by_key.claim_as_worker(1).positions == [0]
    assert by_key.claim_as_worker(2).positions == [1, 2]


def test_an_ordering_key_waits_for_the_retry_of_its_first_run_and_the_group_loses_the_others(by_key: Working) -> None:
    by_key.create([keyed(0, "a"), keyed(1, "a"), keyed(2, "a"), keyed(3, "b"), keyed(4, "a")])
    worker = by_key.claim_as_worker(4)
    assert worker.positions == [0, 3, 1, 2]
    worker.start()
    finished = worker.finish("failed")
    by_position = dict(zip(worker.positions, worker.run_ids, strict=True))
    assert [run_id for run_id, is_retried in finished.items() if is_retried] == [by_position[0]]
    assert by_key.claim() == [], "a run overtook the retry before it in its ordering key"
    assert lifecycle.find_owned(by_key.connection, by_key.workflow.id, worker.id) == {by_position[3]: True}
    # The worker's own writes to what it lost change nothing.
    assert worker.start() == {by_position[3]}
    by_key.make_due()
    again = by_key.claim_as_worker()
    assert [(run.position, run.attempt) for run in again.claimed] == [(0, 2), (1, 1), (2, 1), (4, 1)]


def test_a_run_that_failed_for_good_lets_its_ordering_key_continue(by_key: Working) -> None:
    by_key.create([keyed(0, "a"), keyed(1, "a")])
    worker = by_key.claim_as_worker(2)
    worker.finish("failed", may_retry=False)
    assert worker.start() == {worker.run_ids[1]}


def test_a_rerun_by_a_person_waits_for_its_ordering_key_too(by_key: Working) -> None:
    by_key.create([keyed(0, "a"), keyed(1, "a"), keyed(2, "b")])
    by_key.claim_as_worker(1).succeed()
    by_key.rerun(0)
    # Its ordering key is free: the rerun comes before the runs that wait there, in the order of the source.
    worker = by_key.claim_as_worker(1)
    assert worker.positions == [0]
    assert by_key.claim_as_worker().positions == [2]
    worker.succeed()
    assert by_key.claim_as_worker().positions == [1]


def test_ordering_keys_behind_a_crowd_of_one_busy_ordering_key_are_found(
    by_key: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "_WINDOW", 10)
    by_key.create([keyed(number, "crowd") for number in range(60)])
    by_key.create([keyed(100 + number, f"other-{number}") for number in range(5)])
    assert by_key.claim_as_worker(1).positions == [0]
    found = positions(by_key.claim(4)) + positions(by_key.claim(4))
    assert sorted(found, key=str) == [100, 101, 102, 103, 104]


def test_an_ordering_key_ends_at_a_work_order_that_another_transaction_holds(
    by_key: Working, stack: LocalStack
) -> None:
    by_key.create([keyed(number, "a") for number in range(4)] + [keyed(4, "b")])
    with connect(stack.database_url) as other:
        other.execute(
            "SELECT FROM workorders.work_orders WHERE workflow_id = %s AND position = 1 FOR UPDATE",
            (by_key.workflow.id,),
        )
        assert by_key.claim_as_worker().positions == [0, 4]


def test_a_lost_group_gives_its_ordering_key_back_in_order(by_key: Working) -> None:
    by_key.create([keyed(number, "a") for number in range(4)])
    worker = by_key.claim_as_worker(3)
    started: list[UUID] = worker.run_ids[:1]
    lifecycle.start(by_key.connection, worker.id, started)
    worker.fall_silent()
    assert lifecycle.recover_lost(by_key.connection, by_key.workflow) == lifecycle.Recovered(available=2, retried=1)
    by_key.connection.commit()
    assert by_key.claim() == []
    by_key.make_due()
    assert [(run.position, run.attempt) for run in by_key.claim()] == [(0, 2), (1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize(("stream", "position"), [("far", 1_000_000), (None, None)], ids=["a stream", "a webhook"])
def test_the_oldest_of_an_ordering_key_is_next_though_another_stream_of_the_key_is_always_crowded(
    by_key: Working, stream: str | None, position: int | None
) -> None:
    request = json.dumps({"key": "a"}).encode()
    by_key.create([Item(stream, position, request, b"{}")], fresh=stream is not None)
    by_key.create(keyed(number, "a", "near") for number in range(3))
    seen = []
    for number in range(3, 6):
        worker = by_key.claim_as_worker(1)
        seen += worker.positions
        worker.succeed()
        by_key.create([keyed(number, "a", "near")])
    assert seen == [position, 0, 1]


def test_a_due_retry_of_an_ordering_key_is_next_before_all_other_streams_of_the_key(by_key: Working) -> None:
    by_key.create([keyed(1_000_000, "a", "far")])
    by_key.claim_as_worker().finish("failed")
    by_key.create(keyed(number, "a", "near") for number in range(3))
    assert by_key.claim() == []
    by_key.make_due()
    worker = by_key.claim_as_worker()
    assert [(run.stream, run.position, run.attempt) for run in worker.claimed] == [
        ("far", 1_000_000, 2),
        ("near", 0, 1),
        ("near", 1, 1),
        ("near", 2, 1),
    ]


def test_of_the_next_ones_of_several_streams_the_older_goes_first_and_each_stream_keeps_its_order(
    by_key: Working,
) -> None:
    by_key.create([keyed(7, "a", "x"), keyed(2, "a", "y"), keyed(3, "a", "x"), keyed(1, "a", "y"), keyed(9, "a", "z")])
    # The next one of x is older than that of y, whose older one waits for it.
    expected = [("x", 3), ("x", 7), ("y", 1), ("y", 2), ("z", 9)]
    seen: list[tuple[str | None, int | None]] = []
    while (worker := by_key.claim_as_worker(2)).claimed:
        seen += [(run.stream, run.position) for run in worker.claimed]
        worker.succeed()
    assert seen == expected


def test_of_each_ordering_key_one_is_claimed_though_one_key_fills_the_head_of_the_queue(
    by_key: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "_WINDOW", 10)
    by_key.create(
        [keyed(number, "crowd") for number in range(60)] + [keyed(60 + number, str(number)) for number in range(5)]
    )
    worker_id = add_worker(by_key.connection, by_key.workflow)
    found = claiming.claim(by_key.connection, by_key.workflow, limit=6, worker_id=worker_id, one_per_ordering_key=True)
    assert sorted(positions(found), key=str) == [0, 60, 61, 62, 63, 64]


def test_an_ordering_key_by_stream_runs_the_streams_side_by_side(connection: Connection, name: str) -> None:
    at = Working.on(connection, name, ordering_key="stream")
    at.create([Item(f"s{number % 2}", number // 2, REQUEST, b"{}") for number in range(6)])
    first, second = at.claim_as_worker(3), at.claim_as_worker(3)
    assert {run.stream for run in first.claimed} | {run.stream for run in second.claimed} == {"s0", "s1"}
    assert not {run.stream for run in first.claimed} & {run.stream for run in second.claimed}
