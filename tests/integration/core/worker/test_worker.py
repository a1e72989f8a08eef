"""A worker on a real database: what it claims, what it stores, and when it stops."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Semaphore
from typing import Any
from uuid import UUID

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.alive import is_alive
from support.eventually import eventually
from support.executing import Executing
from support.proxies import HangingProxy
from workorders.core.exceptions import ConfigurationError, OwnershipLostError
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import Recovered, RunResult
from workorders.core.worker import result_store
from workorders.core.worker.exceptions import CallableUnavailableError
from workorders.core.worker.process_pool import ProcessPool
from workorders.core.worker.result_store import ResultStore, RunSummary
from workorders.core.worker.worker import Worker
from workorders.core.workers import add_worker
from workorders.outbox import OutboxMessage, enqueue, publish
from workorders.outbox.enqueue import enqueue_published

pytestmark = pytest.mark.integration

Make = Callable[..., Executing]

OUTPUTS = """
    SELECT output FROM workorders.run_results JOIN workorders.runs ON runs.id = run_id
    WHERE workflow_id = %(workflow_id)s AND output IS NOT NULL ORDER BY work_order_id
"""
LOGS = """
    SELECT log FROM workorders.run_results JOIN workorders.runs ON runs.id = run_id
    WHERE workflow_id = %(workflow_id)s AND log <> '' ORDER BY work_order_id
"""
RUNS = """
    SELECT state::text, error_type, error FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s ORDER BY work_order_id, attempt
"""
# A lock of the outbox is that of one key in 1,024.
OTHER_KEYS = """
    SELECT 'other-' || number FROM generate_series(1, 1000) AS number
    WHERE workorders.outbox_lock_number(workorders.outbox_hash(%s, convert_to('other-' || number, 'UTF8')))
        <> workorders.outbox_lock_number(workorders.outbox_hash(%s, 'busy'))
"""
TIMES = """
    SELECT started_at - claimed_at, finished_at - started_at FROM workorders.runs WHERE workflow_id = %(workflow_id)s
"""


@pytest.fixture
def make(stack: LocalStack, name: str) -> Make:
    """Makes a workflow of this test."""
    return lambda function="behave", **fields: Executing(stack.database_url, name, function, **fields)


@contextmanager
def at_work(worker: Worker) -> Iterator[Future[RunSummary]]:
    """Let a worker work, and stop it at the end, also after a failure of the test."""
    with ThreadPoolExecutor() as threads:
        try:
            yield threads.submit(worker.work)
        finally:
            worker.stop()


def end_time_slice(worker: Worker) -> None:
    """Let the time slice be over; one of some seconds may be over before the first process has started."""
    worker._slice_ends_at = 0.0


def test_whatever_a_run_does_every_other_one_succeeds_and_each_end_is_stored(make: Make) -> None:
    executing = make(timeout=5, processes=2)
    executing.create([{"do": way} for way in ("echo", "fail", "echo", "exit process", "sleep", "tell")] * 2)
    summary = executing.worker().work()
    assert summary.states == {"success": 6, "failed": 2, "crashed": 2, "killed": 2}
    ends = ["success", "failed", "success", "crashed", "killed", "success"] * 2
    assert executing.states() == [(end, end) for end in ends]
    assert len(executing.rows(OUTPUTS)) == 4
    assert "ValueError: no good" in executing.rows(LOGS)[0][0]


def test_outputs_are_kept_and_times_are_those_of_the_process(make: Make) -> None:
    executing = make("echo")
    executing.create([{"n": 1}, {"n": 2}])
    executing.worker().work()
    assert [row[0] for row in executing.rows(OUTPUTS)] == [{"n": 1}, {"n": 2}]
    assert all(row[1].total_seconds() >= 0 for row in executing.rows(TIMES))


def test_messages_are_enqueued_with_the_success_of_their_run_alone(make: Make) -> None:
    executing = make()
    executing.create([{"do": "publish"}, {"do": "publish", "fail": True}])
    executing.worker().work()
    assert [message.to for message in executing.sent] == ["results", "results"]


def test_a_message_that_can_never_be_sent_fails_its_run_alone(make: Make) -> None:
    executing = make()
    executing.create([{"do": "echo"}, {"do": "publish"}, {"do": "echo"}])

    def refuse(_connection: Any, _messages: Any) -> None:
        raise ConfigurationError("the topic has a wrong name")

    executing.worker(enqueue=refuse).work()
    assert [state for state, _ in executing.states()] == ["success", "failed", "success"]
    assert "the topic has a wrong name" in executing.rows(RUNS)[1][2]


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        ("SELECT repeat('x', 2000000000)", ("exception", "ProgramLimitExceeded", "requested length too large")),
        ("SELECT FROM workorders.nowhere", ("exception", "UndefinedTable", 'relation "workorders.nowhere"')),
    ],
)
def test_messages_that_postgres_refuses_end_their_own_run_alone(
    make: Make, refusal: Any, expected: tuple[str, str, str]
) -> None:
    executing = make()
    executing.create([{"do": "echo"}, {"do": "publish"}, {"do": "echo"}])
    executing.worker(enqueue=lambda connection, _: connection.execute(refusal)).work()
    assert [state for state, _ in executing.states()] == ["success", "exception", "success"]
    state, type_, error = executing.rows(RUNS)[1]
    assert (state, type_) == expected[:2]
    assert expected[2] in error


def test_a_result_that_postgres_rejects_even_without_its_output_ends_the_worker(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise psycopg.errors.ProgramLimitExceeded("not for a single result")

    executing = make()
    executing.create([{"do": "tell"}])
    monkeypatch.setattr(lifecycle, "finish", refuse)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        executing.worker().work()


def test_a_claim_that_no_try_can_answer_ends_the_worker_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(connection: Connection, *_: Any, **__: Any) -> None:
        connection.execute("SELECT repeat('x', 2000000000)")

    executing = make()
    executing.create([{"do": "echo"}])
    monkeypatch.setattr(claiming, "claim", too_much)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        executing.worker().work()
    assert executing.logged == []


def test_a_worker_that_is_stopped_while_the_database_is_unavailable_ends(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise psycopg.errors.AdminShutdown("terminating connection due to administrator command")

    monkeypatch.setattr(claiming, "claim", fail)
    executing = make()
    worker = executing.worker()
    with at_work(worker) as ended:
        eventually(lambda: executing.logged, seconds=30, what="the first failure")
        worker.stop()
        assert isinstance(ended.exception(30), psycopg.errors.AdminShutdown)


def test_an_output_that_json_cannot_contain_fails_its_run_alone(make: Make) -> None:
    executing = make("nested")
    executing.create([{"levels": 1}, {"levels": 20_000}, {"levels": 1}])
    executing.worker().work()
    assert [state for state, _ in executing.states()] == ["success", "failed", "success"]


def test_a_run_whose_input_was_wiped_is_an_exception(make: Make) -> None:
    executing = make()
    executing.create([{"do": "echo"}])
    with connect(executing.url) as connection:
        connection.execute(
            "UPDATE workorders.dataclips SET body = NULL FROM workorders.work_orders "
            "WHERE work_orders.id = dataclips.id AND workflow_id = %s",
            [executing.workflow.id],
        )
    executing.worker().work()
    assert executing.rows(RUNS)[0][:2] == ("exception", "InputErased")


def test_a_run_whose_function_raises_a_non_retryable_error_is_not_retried(make: Make) -> None:
    executing = make(retries={"max_retries": 3, "first_delay": 3600})
    executing.create([{"do": "fail"}, {"do": "give up"}])
    executing.worker().work()
    assert executing.states() == [("requeued", "available"), ("failed", "failed")]


@pytest.mark.parametrize("function", ["missing", "without_context"])
def test_a_callable_that_cannot_be_called_leaves_every_work_order_waiting_for_a_better_one(
    make: Make, function: str
) -> None:
    executing = make(function)
    executing.create([{"do": "echo"}] * 3)
    with pytest.raises(CallableUnavailableError, match=function):
        executing.worker().work()
    assert {state for state, _ in executing.states()} <= {"pending", "requeued"}
    assert {row[0] for row in executing.rows(RUNS)} <= {"available"}
    make().worker().work()
    assert executing.states() == [("success", "success")] * 3


def test_an_input_that_python_cannot_read_is_an_exception_of_its_run_alone(make: Make) -> None:
    executing = make("echo", retries={"max_retries": 3})
    executing.create([{}])
    executing.create_text([b'{"deep":' + b"[" * 1_010 + b"%d" % 2**64 + b"]" * 1_010 + b"}"])
    executing.create([{}])
    executing.worker().work()
    assert [state for state, _ in executing.states()] == ["success", "exception", "success"]
    assert executing.rows(RUNS)[1][:2] == ("exception", "InputUnreadableError")


def test_runs_that_had_not_begun_wait_again_when_a_worker_is_stopped(make: Make) -> None:
    executing = make()
    executing.create([{"do": "echo"}, {"do": "sleep"}, {"do": "echo"}, {"do": "echo"}])
    with at_work(executing.worker()):
        eventually(
            lambda: [state for state, _ in executing.states()][:2] == ["success", "running"] and executing.at_sleep(),
            seconds=30,
            what="the second run",
        )
    assert [state for state, _ in executing.states()] == ["success", "running", "requeued", "requeued"]


def test_a_worker_whose_runs_were_given_to_others_stops_and_changes_nothing(make: Make) -> None:
    executing = make(processes=1)
    executing.create([{"do": "sleep"}, {"do": "echo"}])
    with at_work(executing.worker(heartbeat_seconds=0.2)) as ended:
        eventually(executing.at_sleep, seconds=30, what="the first run")
        executing.recover()
        assert isinstance(ended.exception(30), OwnershipLostError)
    assert executing.states() == [("lost", "lost"), ("requeued", "available")]


def test_a_database_that_drops_connections_costs_no_run_and_doubles_none(make: Make, tmp_path: Path) -> None:
    executing = make("note")
    file = tmp_path / "noted"
    executing.create({"file": str(file), "word": str(number), "seconds": 0.01} for number in range(300))
    worker = executing.worker()
    dropped = 0
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'workorders execute'"
    with at_work(worker) as ended:
        while not ended.done():
            with connect(executing.url, autocommit=True) as connection:
                dropped += len(connection.execute(query).fetchall())
            wait([ended], 0.7)
    assert dropped > 1
    assert sorted(map(int, file.read_text().split())) == list(range(300))
    assert set(executing.states()) == {("success", "success")}
    assert worker.summary.states == {"success": 300}


def test_runs_that_were_claimed_by_a_transaction_whose_answer_was_lost_are_executed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    executing = make()
    executing.create([{"do": "echo"}] * 3)
    claim, asked = claiming.claim, []

    def lose_the_first_answer(connection: Connection, *arguments: Any, **named: Any) -> Any:
        asked.append(named)
        if len(asked) > 1:
            return claim(connection, *arguments, **named)
        with connect(executing.url) as another:
            claim(another, *arguments, **named)
        raise psycopg.OperationalError("the connection broke after the commit")

    monkeypatch.setattr(claiming, "claim", lose_the_first_answer)
    assert executing.worker().work().states == {"success": 3}


def test_after_its_time_slice_a_worker_finishes_what_has_begun_and_releases_the_rest(
    make: Make, tmp_path: Path
) -> None:
    executing, file = make("note"), tmp_path / "noted"
    executing.create({"file": str(file), "word": str(number), "seconds": 0.1} for number in range(100))
    worker = executing.worker()
    with at_work(worker) as ended:
        eventually(lambda: worker.summary.total, seconds=60, what="the first results")
        end_time_slice(worker)
        summary = ended.result(60)
    assert 0 < summary.total < 100
    assert summary.states == {"success": summary.total}
    states = executing.states()
    assert states[: summary.total] == [("success", "success")] * summary.total
    assert {work_order for work_order, _ in states[summary.total :]} <= {"pending", "requeued"}
    assert any("the time slice of 120 s is over" in line for line in executing.logged)
    executing.worker().work()
    assert file.read_text().split() == [str(number) for number in range(100)]


def test_a_run_that_lasts_longer_than_the_time_slice_is_finished_and_the_one_behind_it_waits(
    make: Make, tmp_path: Path
) -> None:
    executing = make()
    executing.create([{"do": "meet", "folder": str(tmp_path), "count": 2}] * 2)
    worker = executing.worker()
    with at_work(worker) as ended:
        eventually(lambda: list(tmp_path.iterdir()), seconds=60, what="the begin of the first run")
        end_time_slice(worker)
        eventually(
            lambda: [state for state, _ in executing.states()] == ["running", "requeued"],
            seconds=60,
            what="the release of the second run",
        )
        (tmp_path / "another").touch()
        assert ended.result(60).states == {"success": 1}
    assert [state for state, _ in executing.states()] == ["success", "requeued"]


def test_a_wait_ends_with_the_time_slice(make: Make) -> None:
    executing = make()
    executing.create([{"do": "echo"}])
    worker = executing.worker(linger=600)
    with at_work(worker) as ended:
        eventually(lambda: worker.summary.total, seconds=60, what="the end of the run")
        end_time_slice(worker)
        assert ended.result(60).states == {"success": 1}


@pytest.mark.parametrize(
    ("fields", "earliest"),
    [
        ({"linger": 0, "may_wait": lambda: pytest.fail("it waits")}, 0.0),
        ({"linger": 1}, 1.0),
        ({"linger": 600, "may_wait": lambda: False}, 0.0),
    ],
)
def test_a_wait_ends_after_its_linger_or_if_it_is_no_longer_allowed(
    make: Make, fields: dict[str, Any], earliest: float
) -> None:
    executing = make()
    executing.create([{"do": "echo"}])
    begun = time.monotonic()
    assert executing.worker(**fields).work().states == {"success": 1}
    assert earliest <= time.monotonic() - begun < 60


def test_a_worker_that_waits_recovers_the_runs_of_another_one_and_executes_them(make: Make) -> None:
    executing = make(concurrency=1)
    executing.create([{"do": "echo"}])
    executing.claim_and_fall_silent()
    assert executing.worker(linger=5).work().states == {"success": 1}


def test_a_waiting_worker_executes_what_arrives_and_claims_nothing_before(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    executing = make(concurrency=1)
    executing.create([{"do": "echo"}] * 2)
    with connect(executing.url) as connection:
        other = add_worker(connection, executing.workflow)
        (run,) = claiming.claim(connection, executing.workflow, limit=1, worker_id=other)
    claim, claims, questions = claiming.claim, [], Semaphore(0)

    def count(*given: Any, **named: Any) -> list[ClaimedRun]:
        claims.append(given)
        return claim(*given, **named)

    def ask() -> bool:
        questions.release()
        return True

    monkeypatch.setattr(claiming, "claim", count)
    monkeypatch.setattr("workorders.core.worker.worker._ASK_SECONDS", 0.5)
    worker = executing.worker(linger=600, may_wait=ask)
    with at_work(worker) as ended:
        assert all(questions.acquire(timeout=30) for _ in range(3))
        assert len(claims) == 1
        with connect(executing.url) as connection:
            lifecycle.finish(connection, other, [RunResult(run_id=run.run_id, state="success")])
        eventually(lambda: worker.summary.total, seconds=30, what="the run that waited")
        executing.create([{"do": "echo"}])
        eventually(lambda: worker.summary.total == 2, seconds=30, what="the run that arrived")
        worker.stop()
        assert ended.result(30).states == {"success": 2}


def test_one_at_a_time_means_oldest_first_and_never_two(make: Make, tmp_path: Path) -> None:
    executing = make("note", concurrency=1, processes=4)
    file = tmp_path / "noted"
    executing.create({"file": str(file), "word": str(number)} for number in range(30))
    executing.worker().work()
    assert file.read_text().split() == [str(number) for number in range(30)]


def test_an_ordering_key_keeps_its_order_and_waits_behind_a_retry(make: Make, tmp_path: Path) -> None:
    executing = make(
        "note_or_fail",
        ordering_key="body:/ordering_key",
        retries={"max_retries": 1, "first_delay": 0},
        processes=2,
    )
    file = tmp_path / "noted"
    executing.create(
        (
            {
                "file": str(file),
                "ordering_key": ordering_key,
                "word": f"{ordering_key}:{number}",
                "fail_once": number == 2,
            }
            for number in range(6)
            for ordering_key in ("a", "b", "c")
        ),
        stream="ward",
    )
    eventually(
        lambda: executing.worker().work() and {state for state, _ in executing.states()} == {"success"},
        seconds=60,
        what="the success of all",
    )
    words = file.read_text().split()
    for ordering_key in ("a", "b", "c"):
        assert [word for word in words if word.startswith(ordering_key)] == [f"{ordering_key}:{n}" for n in range(6)]


@pytest.fixture
def application(make: Make, name: str) -> Iterator[Connection]:
    """A connection of a program that has written to the key `busy` of the test's topic and has not ended."""
    with connect(make().url) as connection:
        publish(connection, name, "x", key="busy")
        yield connection


def publishing(name: str, keys: Iterable[str | None], **fields: Any) -> list[dict[str, Any]]:
    return [{"to": name, "key": key, **fields} for key in keys]


def test_a_busy_key_delays_the_runs_that_publish_to_it_and_no_others(
    make: Make, name: str, application: Connection
) -> None:
    executing = make("publish", processes=2)
    keys = [key for (key,) in application.execute(OTHER_KEYS, [name, name]).fetchall()]
    executing.create(publishing(name, [*keys[:5], "busy", *keys[5:49], "busy", *keys[49:98]]))
    worker = executing.worker(enqueue=enqueue_published, linger=600, heartbeat_seconds=0.2)
    with at_work(worker) as ended:
        eventually(lambda: worker.summary.total == 98, seconds=30, what="the success of the others")
        # One that begins later is stored as well, and nothing was taken for an outage.
        executing.create(publishing(name, ["later"]))
        eventually(lambda: worker.summary.total == 99, seconds=30, what="the success of a later one")
        assert executing.logged == []
        application.commit()
        eventually(lambda: worker.summary.total == 101, seconds=30, what="the success of all")
        worker.stop()
        assert ended.result(30).states == {"success": 101}
    assert keys_sent(application, name).count("busy") == 3


def test_a_transaction_that_holds_every_lock_of_the_outbox_delays_no_run_that_publishes_nothing(
    make: Make, name: str, application: Connection
) -> None:
    enqueue(application, [OutboxMessage(topic=name, key=str(n), value="x") for n in range(20_000)])
    executing = make("publish", processes=2)
    executing.create(publishing(name, [None if n % 2 else f"k{n}" for n in range(40)]))
    worker = executing.worker(enqueue=enqueue_published)
    with at_work(worker) as ended:
        eventually(lambda: worker.summary.total == 20, seconds=30, what="the success of those without a key")
        application.rollback()
        assert ended.result(30).states == {"success": 40}
    assert executing.logged == []


def test_a_result_that_is_kept_back_keeps_back_the_later_runs_of_its_ordering_key(
    make: Make, name: str, application: Connection, tmp_path: Path
) -> None:
    file = tmp_path / "noted"
    executing = make("publish", ordering_key="body:/ward", retries={"max_retries": 2, "first_delay": 0})
    wards = [("a", "busy"), ("b", "free"), ("a", None), ("a", "free"), ("b", None), ("a", None)]
    executing.create(
        (
            {"to": name, "key": key, "ward": ward, "file": str(file), "word": f"{ward}{n}", "seconds": 0.8}
            for n, (ward, key) in enumerate(wards)
        ),
        stream="ward",
    )
    worker = executing.worker(enqueue=enqueue_published, linger=600)
    with at_work(worker) as ended:
        eventually(lambda: worker.summary.total == 2, seconds=30, what="the success of the other ordering key")
        stored = [state for state, _ in executing.states()]
        assert [stored[n] for n in (0, 2, 3, 5)].count("success") == 0
        assert (stored[1], stored[4]) == ("success", "success")
        # One of them at most had begun before its predecessor was found to wait.
        assert {"a3", "a5"}.isdisjoint(file.read_text().split())
        application.rollback()
        eventually(lambda: worker.summary.total == 6, seconds=30, what="the success of all")
        worker.stop()
        ended.result(30)
    assert [word for word in file.read_text().split() if word.startswith("a")] == ["a0", "a2", "a3", "a5"]


def test_a_worker_whose_time_slice_is_over_stores_what_it_kept_back_before_it_ends(
    make: Make, name: str, application: Connection
) -> None:
    executing = make("publish")
    executing.create(publishing(name, ["busy"]))
    worker = executing.worker(enqueue=enqueue_published)
    with at_work(worker) as ended:
        eventually(lambda: worker._store.kept, seconds=60, what="the result that is kept back")
        end_time_slice(worker)
        assert not ended.done()
        application.rollback()
        assert ended.result(30).states == {"success": 1}
    assert executing.states() == [("success", "success")]


def test_a_worker_that_cannot_store_what_it_kept_back_ends_and_says_so(
    make: Make, name: str, application: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workorders.core.worker.worker._MAX_KEPT_SECONDS_AFTER_STOP", 0.5)
    executing = make("publish")
    executing.create(publishing(name, ["busy"]))
    worker = executing.worker(enqueue=enqueue_published)
    with at_work(worker) as ended:
        eventually(lambda: worker._store.kept, seconds=30, what="the result that is kept back")
        worker.stop()
        assert ended.result(30).total == 0
    assert executing.states() == [("running", "started")]
    assert "The results of 1 runs were not stored" in executing.logged[-1]


def test_a_worker_that_keeps_back_many_results_begins_no_more_runs(
    make: Make, name: str, application: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_store, "_MAX_KEPT_RUNS", 3)
    executing = make("publish")
    executing.create(publishing(name, ["busy"] * 30, seconds=0.2))
    worker = executing.worker(enqueue=enqueue_published)
    with at_work(worker) as ended:
        eventually(lambda: worker._store.is_full and not worker._pool.unfinished, seconds=30, what="a full worker")
        assert [state for _, state in executing.states()].count("started") < 30
        application.rollback()
        assert ended.result(60).states == {"success": 30}


def test_what_can_never_be_sent_or_stored_is_not_retried(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "noted"
    executing = make("publish", retries={"max_retries": 3, "first_delay": 0, "after": ["failed", "exception"]})
    executing.create([{"to": "a topic with spaces", "key": "k", "file": str(file), "word": "called"}])
    for _ in range(3):
        executing.worker(enqueue=enqueue_published).work()
    assert file.read_text().split() == ["called"]
    assert executing.states() == [("failed", "failed")]


def test_large_results_are_stored_in_several_transactions(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    finish, stored = lifecycle.finish, []

    def note_bytes(
        connection: Connection, worker_id: UUID, results: Sequence[RunResult], **named: Any
    ) -> dict[UUID, bool]:
        stored.append([len(result.output or b"") for result in results])
        return finish(connection, worker_id, results, **named)

    monkeypatch.setattr(lifecycle, "finish", note_bytes)
    monkeypatch.setattr(result_store, "MAX_STORED_BYTES", 100_000)
    executing = make("echo")
    executing.create([{"x": "y" * size} for size in [*[40_000] * 8, 200_000, *[40_000] * 3]])
    assert executing.worker().work().states == {"success": 12}
    assert all(sum(part) <= 100_000 or len(part) == 1 for part in stored)


def keys_sent(connection: Connection, topic: str) -> list[str | None]:
    query = "SELECT convert_from(key, 'UTF8') FROM workorders.outbox_messages WHERE topic = %s ORDER BY id"
    return [key for (key,) in connection.execute(query, [topic])]


def test_runs_behind_a_failed_one_wait_for_its_retry_although_the_answer_to_its_end_was_lost(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retries = {"max_retries": 1, "first_delay": 0}
    executing, file = make("note_or_fail", ordering_key="body:/key", retries=retries), tmp_path / "noted"
    words = [str(number) for number in range(20)]
    executing.create(
        ({"file": str(file), "key": "a", "word": word, "fail_once": word == "7"} for word in words), stream="ward"
    )
    finish = ResultStore._finish
    lost: list[Any] = []

    def commit_and_lose_the_answer(store: ResultStore, connection: Connection, results: Any) -> dict[UUID, bool]:
        finished = finish(store, connection, results)
        if any(finished.values()) and not lost:
            lost.append(results)
            # The transaction around this ends, and its caller is told that the connection broke.
            connection.execute("COMMIT")
            raise psycopg.OperationalError("the connection broke after the commit")
        return finished

    monkeypatch.setattr(ResultStore, "_finish", commit_and_lose_the_answer)
    eventually(
        lambda: executing.worker().work() and {state for state, _ in executing.states()} == {"success"},
        seconds=60,
        what="the success of all",
    )
    assert (len(lost), file.read_text().split()) == (1, words)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["for the database", "for something else"])
def test_processes_are_killed_before_the_runs_of_a_worker_behind_a_hanging_proxy_are_those_of_another(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    grace_seconds, hangs, waits, is_over = 10.0, threading.Event(), threading.Event(), threading.Event()
    poll = ProcessPool.poll

    def poll_and_wait(pool: ProcessPool, seconds: float) -> list[RunResult]:
        if elsewhere and hangs.is_set():
            waits.set()
            is_over.wait(60)
        return poll(pool, seconds)

    monkeypatch.setattr(ProcessPool, "poll", poll_and_wait)
    executing, file = make("leave_pid"), tmp_path / "process"
    executing.create([{"file": str(file)}])
    with HangingProxy(executing.url) as proxy, ThreadPoolExecutor() as threads:
        worker = executing.worker(database_url=proxy.url, heartbeat_seconds=0.3, grace_seconds=grace_seconds)
        ended = threads.submit(worker.work)
        eventually(lambda: file.exists() and file.read_text(), seconds=30, what="the run")
        process = int(file.read_text())
        hangs.set()
        assert not elsewhere or waits.wait(30)
        proxy.hang()

        def recovered() -> int:
            with connect(executing.url) as connection:
                return lifecycle.recover_lost(connection, executing.workflow).lost

        eventually(recovered, seconds=60, what="the recovery")
        assert not is_alive(process)
        is_over.set()
        assert isinstance(ended.exception(30), (psycopg.OperationalError, OwnershipLostError))
    assert executing.states() == [("lost", "lost")]


def test_a_worker_whose_runs_were_recovered_stops_at_its_next_step_and_counts_what_is_stored(make: Make) -> None:
    executing = make(processes=2, concurrency=None)
    executing.create([{"do": "sleep"}, *[{"do": "echo late", "seconds": 0.05}] * 200])
    worker = executing.worker(heartbeat_seconds=3600)
    with at_work(worker) as ended:
        eventually(lambda: executing.at_sleep() and worker.summary.total, seconds=30, what="the first results")
        recovered = executing.recover()
        assert isinstance(ended.exception(30), OwnershipLostError)
    assert recovered.lost > 0
    states = [state for state, _ in executing.states()]
    assert states.count("success") == worker.summary.total


def test_a_worker_that_ends_leaves_no_row_unless_it_owns_a_run(make: Make, tmp_path: Path) -> None:
    executing, file = make(), tmp_path / "process"
    rows = "SELECT id FROM workorders.workers WHERE workflow_id = %(workflow_id)s"
    executing.create([{"do": "echo"}])
    executing.worker().work()
    assert executing.rows(rows) == []
    executing = make("leave_pid")
    executing.create([{"file": str(file)}])
    worker = executing.worker()
    with at_work(worker):
        eventually(file.exists, seconds=30, what="the run")
    assert executing.rows(rows) == [(worker.id,)]
    assert executing.recover() == Recovered(lost=1)
    assert executing.rows(rows) == []


def test_a_worker_never_waits_for_its_own_heartbeat(make: Make) -> None:
    executing = make("echo")
    executing.create({"n": number} for number in range(3000))
    assert executing.worker(heartbeat_seconds=0.005).work().states == {"success": 3000}
    assert executing.logged == []
