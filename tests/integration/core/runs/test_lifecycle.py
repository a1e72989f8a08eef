from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.working import ClaimingWorker, Working, expire_workers
from workorders.core import workers
from workorders.core.exceptions import OwnershipLostError
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.lifecycle import Recovered, RunResult
from workorders.core.workers import add_worker

pytestmark = pytest.mark.integration


# Both by the clock of the statement that ended the run, so that it does not matter how long its commit took.
WAITS = """
    SELECT due.not_before - failed.finished_at
    FROM workorders.runs AS due JOIN workorders.runs AS failed USING (work_order_id)
    WHERE due.workflow_id = %s AND due.state = 'available' AND failed.attempt = due.attempt - 1
"""


@pytest.fixture
def other_connection(stack: LocalStack) -> Iterator[Connection]:
    """A second connection to the tests' database."""
    with connect(stack.database_url) as other:
        yield other


def one(connection: Connection, name: str, **fields: Any) -> tuple[Working, ClaimingWorker]:
    """Return a workflow with one work order, and the worker that claimed it."""
    working = Working.on(connection, name, **fields)
    working.create_some(1)
    return working, working.claim_as_worker()


def row(worker: ClaimingWorker, columns: str) -> tuple[Any, ...]:
    found = worker.working.connection.execute(
        f"SELECT {columns} FROM workorders.runs WHERE id = %s", (worker.run_ids[0],)
    ).fetchone()
    assert found is not None
    return found


@pytest.mark.parametrize("state", ["success", "failed", "crashed", "cancelled", "killed", "lost", "exception"], ids=str)
def test_the_state_of_a_work_order_is_that_of_its_newest_run(
    connection: Connection, name: str, state: lifecycle.FinalState
) -> None:
    working, worker = one(connection, name)
    assert working.states() == ["running"]
    worker.start()
    assert working.states() == ["running"]
    assert worker.finish(state) == dict.fromkeys(worker.run_ids, False)
    assert (working.states(), working.runs()) == ([state], [(0, 1, state)])
    working.rerun(0)
    assert working.states() == ["requeued"]
    working.claim_as_worker().succeed()
    assert (working.states(), working.runs()) == (["success"], [(0, 1, state), (0, 2, "success")])


def test_a_run_keeps_its_output_its_log_its_error_and_its_times(connection: Connection, name: str) -> None:
    _, worker = one(connection, name)
    begun, ended = datetime(2026, 5, 1, 8, tzinfo=UTC), datetime(2026, 5, 1, 9, tzinfo=UTC)
    worker.finish(
        "failed",
        output=b'{"a": [1, 2]}',
        log="first line\nsecond",
        log_truncated=True,
        error_type="ValueError",
        error="no such ward",
        started_at=begun,
        finished_at=ended,
    )
    assert row(worker, "started_at, finished_at, error_type, error") == (begun, ended, "ValueError", "no such ward")
    (run_id,) = worker.run_ids
    assert connection.execute(
        "SELECT output, log, log_truncated FROM workorders.run_results WHERE run_id = %s", (run_id,)
    ).fetchall() == [({"a": [1, 2]}, "first line\nsecond", True)]


def test_a_run_without_output_and_log_keeps_none(connection: Connection, name: str) -> None:
    _, worker = one(connection, name)
    worker.succeed()
    query = "SELECT FROM workorders.run_results WHERE run_id = %s"
    assert not connection.execute(query, (worker.run_ids[0],)).fetchall()


def test_an_error_and_a_log_that_text_cannot_hold_are_written_escaped(connection: Connection, name: str) -> None:
    _, worker = one(connection, name)
    worker.finish("failed", log="a\0b\ud800", error="\0", error_type="Odd\0Error")
    assert row(worker, "error, error_type") == ("\\0", "Odd\\0Error")
    (log,) = connection.execute(
        "SELECT log FROM workorders.run_results WHERE run_id = %s", (worker.run_ids[0],)
    ).fetchall()
    assert log == ("a\\0b\\ud800",)


def test_a_group_finishes_its_runs_once(connection: Connection, name: str) -> None:
    working, worker = one(connection, name)
    worker.succeed()
    assert worker.finish("failed") == {}
    assert working.states() == ["success"]


def test_another_worker_starts_beats_and_finishes_nothing(connection: Connection, name: str) -> None:
    working, worker = one(connection, name)
    stranger = ClaimingWorker(working, add_worker(connection, working.workflow), worker.claimed)
    assert (stranger.start(), stranger.succeed()) == (frozenset(), {})
    assert lifecycle.release(connection, stranger.id, worker.run_ids) == 0
    assert (working.states(), working.runs()) == (["running"], [(0, 1, "claimed")])


@pytest.mark.parametrize(
    ("retries", "delays"),
    [
        ({"max_retries": 3, "first_delay": 10}, [10, 20, 40]),
        ({"max_retries": 3, "first_delay": 10, "max_delay": 15}, [10, 15, 15]),
        ({"max_retries": 2, "first_delay": 7, "exponential_backoff": False}, [7, 7]),
        ({"max_retries": 1, "first_delay": 0}, [0]),
        ({}, []),
    ],
    ids=str,
)
def test_a_failed_run_is_retried_after_the_delays_of_its_policy(
    connection: Connection, name: str, retries: dict[str, Any], delays: list[int]
) -> None:
    working, worker = one(connection, name, retries=retries)
    for delay in delays:
        assert worker.finish("failed") == dict.fromkeys(worker.run_ids, True)
        assert working.states() == ["requeued"]
        waits = connection.execute(WAITS, (working.workflow.id,)).fetchall()
        assert waits == [(timedelta(seconds=delay),)]
        working.make_due()
        worker = working.claim_as_worker()
    assert worker.finish("failed") == dict.fromkeys(worker.run_ids, False)
    assert working.states() == ["failed"]
    assert [state for _, _, state in working.runs()] == ["failed"] * (len(delays) + 1)


def test_only_the_states_of_the_policy_are_retried(connection: Connection, name: str) -> None:
    working = Working.on(connection, name, retries={"max_retries": 5, "after": ["crashed", "lost"]})
    working.create_some(4)
    worker = working.claim_as_worker()
    finished = worker.finish("failed", "crashed", "killed", "success")
    assert finished[worker.run_ids[1]]
    assert sum(finished.values()) == 1
    assert working.states() == ["failed", "requeued", "killed", "success"]


def test_a_run_whose_error_cannot_be_retried_is_not_retried(connection: Connection, name: str) -> None:
    working, worker = one(connection, name, retries={"max_retries": 5})
    assert worker.finish("failed", may_retry=False) == dict.fromkeys(worker.run_ids, False)
    assert working.states() == ["failed"]


def test_a_rerun_has_all_its_retries_again(connection: Connection, name: str) -> None:
    working, worker = one(connection, name, retries={"max_retries": 1, "first_delay": 0})
    worker.finish("failed")
    working.claim_as_worker().finish("failed")
    working.rerun(0)
    assert list(working.claim_as_worker().finish("failed").values()) == [True]
    assert [run.attempt for run in working.claim()] == [4]


def test_runs_that_were_not_begun_can_be_released(connection: Connection, name: str) -> None:
    working = Working.on(connection, name)
    working.create_some(3)
    worker = working.claim_as_worker()
    assert lifecycle.release(connection, worker.id, worker.run_ids[1:2]) == 1
    assert working.states() == ["running", "requeued", "running"]
    assert lifecycle.release(connection, worker.id, worker.run_ids) == 2
    assert [(run.position, run.attempt) for run in working.claim()] == [(0, 1), (1, 1), (2, 1)]


def test_a_group_that_beats_is_not_lost(connection: Connection, name: str) -> None:
    working, worker = one(connection, name)
    worker.start()
    worker.fall_silent()
    workers.record_heartbeat(connection, worker.id)
    assert lifecycle.recover_lost(connection, working.workflow) == Recovered()


def test_a_silent_workers_started_runs_are_lost_and_the_others_are_available_again(
    connection: Connection, name: str
) -> None:
    working = Working.on(connection, name)
    working.create_some(3)
    worker = working.claim_as_worker()
    lifecycle.start(connection, worker.id, worker.run_ids[:1])
    worker.fall_silent()
    assert lifecycle.recover_lost(connection, working.workflow) == Recovered(available=2, lost=1)
    assert working.states() == ["lost", "requeued", "requeued"]
    assert row(worker, "error_type, finished_at IS NOT NULL") == ("Lost", True)
    assert [(run.position, run.attempt) for run in working.claim()] == [(1, 1), (2, 1)]
    assert lifecycle.recover_lost(connection, working.workflow) == Recovered()


@pytest.mark.parametrize("begin_later", [False, True])
def test_a_lost_run_has_a_time_of_its_beginning_only_if_it_began_when_it_was_started(
    connection: Connection, name: str, *, begin_later: bool
) -> None:
    working, worker = one(connection, name)
    lifecycle.start(connection, worker.id, worker.run_ids, begin_later=begin_later)
    worker.fall_silent()
    assert lifecycle.recover_lost(connection, working.workflow) == Recovered(lost=1)
    assert row(worker, "started_at IS NULL") == (begin_later,)


def test_a_lost_run_is_retried_by_the_policy(connection: Connection, name: str) -> None:
    working, worker = one(connection, name, retries={"max_retries": 1, "first_delay": 0})
    worker.start()
    worker.fall_silent()
    assert lifecycle.recover_lost(connection, working.workflow) == Recovered(retried=1)
    assert (working.states(), working.runs()) == (["requeued"], [(0, 1, "lost"), (0, 2, "available")])
    again = working.claim_as_worker()
    again.start()
    again.fall_silent()
    assert lifecycle.recover_lost(connection, working.workflow) == Recovered(lost=1)
    assert working.states() == ["lost"]


def test_a_worker_that_was_given_up_changes_nothing_when_it_wakes_up(connection: Connection, name: str) -> None:
    working, zombie = one(connection, name)
    zombie.fall_silent()
    lifecycle.recover_lost(connection, working.workflow)
    connection.commit()
    worker = working.claim_as_worker()
    assert worker.run_ids == zombie.run_ids
    zombie_does: list[Callable[[], object]] = [
        zombie.start,
        lambda: zombie.finish("failed", log="from the grave"),
        lambda: lifecycle.release(connection, zombie.id, zombie.run_ids),
        lambda: claiming.claim(connection, working.workflow, limit=1, worker_id=zombie.id),
        lambda: workers.record_heartbeat(connection, zombie.id),
    ]
    for does in zombie_does:
        with pytest.raises(OwnershipLostError):
            does()
        connection.rollback()
    assert working.states() == ["running"]
    assert worker.succeed().keys() == set(worker.run_ids)
    query = "SELECT FROM workorders.run_results WHERE run_id = %s AND log <> ''"
    assert not connection.execute(query, (worker.run_ids[0],)).fetchall()


def test_an_output_that_is_no_json_breaks_the_transaction_and_not_the_runs(connection: Connection, name: str) -> None:
    working, worker = one(connection, name)
    result = RunResult(run_id=worker.run_ids[0], state="success", output=b"{")
    with pytest.raises(psycopg.DataError):
        lifecycle.finish(connection, worker.id, [result])
    connection.rollback()
    assert working.runs() == [(0, 1, "claimed")]


def test_a_heartbeat_does_not_wait_for_the_workers_own_transaction_and_recovery_passes_over_it(
    connection: Connection, other_connection: Connection, name: str
) -> None:
    working, worker = one(connection, name)
    worker.start()
    lifecycle.finish(connection, worker.id, [RunResult(run_id=worker.run_ids[0], state="success")])
    other_connection.execute("SET LOCAL lock_timeout = '1s'")
    workers.record_heartbeat(other_connection, worker.id)
    expire_workers(other_connection, working.workflow)
    other_connection.commit()
    assert lifecycle.recover_lost(other_connection, working.workflow) == Recovered()
    connection.commit()
    lifecycle.recover_lost(other_connection, working.workflow)
    other_connection.commit()
    assert working.states() == ["success"]
    with pytest.raises(OwnershipLostError):
        lifecycle.find_owned(connection, working.workflow.id, worker.id)


def test_a_recovery_that_is_cut_leaves_everything_to_the_worker(
    connection: Connection, other_connection: Connection, name: str
) -> None:
    working, worker = one(connection, name)
    expire_workers(other_connection, working.workflow)
    assert lifecycle.recover_lost(other_connection, working.workflow) == Recovered(available=1)
    other_connection.rollback()
    assert worker.start() == frozenset(worker.run_ids)
    assert worker.succeed().keys() == set(worker.run_ids)
