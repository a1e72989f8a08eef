"""Functions with steps on real databases: what is done once, and what a later attempt gets."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.executing import Executing
from support.step_functions import CONNECTION, user_database
from workorders.core.attribution import Attribution
from workorders.core.bulk.runner import rerun_work_orders
from workorders.core.exceptions import OwnershipLostError
from workorders.core.postgres.connection import connect
from workorders.core.runs import lifecycle
from workorders.core.worker import result_store
from workorders.core.worker.result_store import ResultStore
from workorders.core.worker.run_results import Mask, secrets_of

pytestmark = pytest.mark.integration

Make = Callable[..., Executing]

STEPS = """
    SELECT steps.name, steps.result, steps.committed_elsewhere, runs.attempt, steps.generation
    FROM workorders.steps JOIN workorders.runs ON runs.id = steps.run_id
    WHERE runs.workflow_id = %(workflow_id)s ORDER BY steps.finished_at
"""
OUTPUTS = """
    SELECT output FROM workorders.run_results JOIN workorders.runs ON runs.id = run_id
    WHERE workflow_id = %(workflow_id)s AND output IS NOT NULL ORDER BY work_order_id
"""
ENDS = """
    SELECT state::text, error_type, error FROM workorders.runs
    WHERE workflow_id = %(workflow_id)s ORDER BY work_order_id, attempt
"""
LOGS = """
    SELECT log FROM workorders.run_results JOIN workorders.runs ON runs.id = run_id
    WHERE workflow_id = %(workflow_id)s AND log <> '' ORDER BY run_id
"""
POINTS = ["in the step", "after the step", "in the transaction", "after the transaction"]
RETRIES = {"max_retries": 3, "first_delay": 0}


@pytest.fixture(scope="module")
def shop(stack: LocalStack) -> str:
    """The database of the functions."""
    return user_database(stack, f"shop-{uuid4().hex[:8]}")


@pytest.fixture
def make(stack: LocalStack, name: str) -> Make:
    """Makes a workflow of this test."""

    def made(function: str = "attempt", **fields: Any) -> Executing:
        given = {"processes": 1, "linger": 0, "database": CONNECTION, "retries": RETRIES, **fields}
        return Executing(stack.database_url, name, None, callable=f"support.step_functions:{function}", **given)

    return made


def work(executing: Executing, shop: str, **fields: Any) -> Counter[str]:
    """Execute everything, and return how often runs ended in which state."""
    worker = executing.worker(user_database=shop, linger=2, **fields)
    return worker.work().states


def numbers(shop: str, names: list[str]) -> list[int]:
    """Return the numbers of counters."""
    with psycopg.connect(shop) as connection:
        found: dict[str, int] = dict(
            connection.execute("SELECT name, number FROM counters WHERE name = ANY (%s)", [names]).fetchall()
        )
    return [found.get(each, 0) for each in names]


def test_each_row_is_written_once_and_each_message_is_sent_once_wherever_the_process_is_killed(
    make: Make, shop: str, tmp_path: Path, name: str
) -> None:
    executing, file = make("ship", processes=2), tmp_path / "lines"
    orders = [f"{name}-{number}" for number in range(10)]
    points = [None, *POINTS] * 2
    executing.create(
        {"order": order, "file": str(file), "die": point} for order, point in zip(orders, points, strict=True)
    )
    assert work(executing, shop) == {"success": 10, "crashed": 8}
    assert numbers(shop, orders) == [1] * 10
    assert sorted((message.key or b"").decode() for message in executing.sent) == orders
    lines = Counter(file.read_text().splitlines())
    assert sorted(lines.values()) == [1] * 8 + [2] * 2
    assert {line.split()[0] for line, count in lines.items() if count == 2} == {orders[1], orders[6]}
    outputs = [output for (output,) in executing.rows(OUTPUTS)]
    assert all(f"{order} {output['line']}" in lines for order, output in zip(orders, outputs, strict=True))
    assert {output["number"] for output in outputs} == {1}


def test_steps_are_shown_with_their_attempts_also_those_of_a_crashed_run(make: Make, shop: str, tmp_path: Path) -> None:
    executing = make("ship", retries={})
    executing.create([{"order": str(uuid4()), "file": str(tmp_path / "lines"), "die": "after the transaction"}])
    assert work(executing, shop) == {"crashed": 1}
    (line, count) = executing.rows(STEPS)
    assert (line[0], *line[2:]) == ("line", False, 1, 1)
    assert count == ("count", 1, True, 1, 1)


def test_a_later_attempt_gets_what_an_earlier_one_has_stored(make: Make, shop: str) -> None:
    executing = make()
    executing.create([{"do": "again"}])
    assert work(executing, shop) == {"failed": 1, "success": 1}
    assert executing.rows(STEPS) == [("first", None, False, 1, 1), ("second", 1.0, False, 2, 1)]
    assert sum(log.count("first is called") for (log,) in executing.rows(LOGS)) == 1


def test_another_generation_begins_with_no_step(make: Make, shop: str, tmp_path: Path, name: str) -> None:
    executing, file = make("ship"), tmp_path / "lines"
    executing.create([{"order": name, "file": str(file), "die": "after the step"}])
    assert work(executing, shop) == {"crashed": 1, "success": 1}
    with connect(executing.url) as connection:
        connection.execute(
            """
            INSERT INTO workorders.runs (id, work_order_id, workflow_id, attempt, generation, state)
            SELECT gen_random_uuid(), work_order_id, workflow_id, 3, 2, 'available'
            FROM workorders.runs WHERE workflow_id = %s AND attempt = 2
            """,
            [executing.workflow.id],
        )
        connection.execute(
            "UPDATE workorders.work_orders SET state = 'requeued' WHERE workflow_id = %s", [executing.workflow.id]
        )
    assert work(executing, shop) == {"success": 1}
    assert numbers(shop, [name]) == [2]
    assert len(set(file.read_text().splitlines())) == 2
    assert [(row[0], row[3], row[4]) for row in executing.rows(STEPS)] == [
        ("line", 1, 1),
        ("count", 2, 1),
        ("line", 3, 2),
        ("count", 3, 2),
    ]


def test_a_retry_keeps_the_generation(make: Make, shop: str) -> None:
    executing = make()
    executing.create([{"do": "again"}])
    with connect(executing.url) as connection:
        connection.execute("ALTER TABLE workorders.runs ALTER generation SET DEFAULT 5")
    try:
        work(executing, shop)
    finally:
        with connect(executing.url) as connection:
            connection.execute("ALTER TABLE workorders.runs ALTER generation SET DEFAULT 1")
    assert [row[4] for row in executing.rows(STEPS)] == [5, 5]


def test_the_steps_of_several_threads_are_stored(make: Make, shop: str) -> None:
    executing = make()
    executing.create([{"do": "threads"}])
    assert work(executing, shop) == {"success": 1}
    assert executing.rows(OUTPUTS) == [([190, 20],)]
    assert len(executing.rows(STEPS)) == 40


@pytest.mark.parametrize(
    ("do", "error_type", "text"),
    [
        ("twice", "StepError", "another step with that name"),
        ("much", "StepError", "more than 1048576"),
        ("not a number", "InvalidValueError", "inf"),
    ],
)
def test_a_misused_step_fails_its_run_which_is_not_retried(
    make: Make, shop: str, do: str, error_type: str, text: str
) -> None:
    executing = make()
    executing.create([{"do": do}])
    assert work(executing, shop) == {"failed": 1}
    ((_, type_, error),) = executing.rows(ENDS)
    assert (type_, text in error) == (error_type, True), error


def test_a_result_that_only_postgres_refuses_fails_its_run_alone(
    make: Make, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = lifecycle.store_steps

    def refuse(connection: Any, worker_id: Any, given: Any) -> Any:
        if any(step.name == "second" for step in given):
            raise psycopg.errors.ProgramLimitExceeded("too large for jsonb")
        return store(connection, worker_id, given)

    monkeypatch.setattr(lifecycle, "store_steps", refuse)
    executing = make()
    executing.create([{"do": "again"}])
    assert work(executing, shop) == {"failed": 2}
    refusal = "The result of 'second' cannot be stored: ProgramLimitExceeded"
    assert executing.rows(ENDS)[1][1:] == ("InvalidValueError", refusal)
    assert any("the result of step 'second' cannot be stored" in line for line in executing.logged)


def test_the_password_of_the_database_is_shown_nowhere(make: Make, shop: str) -> None:
    password = str(psycopg.conninfo.conninfo_to_dict(shop)["password"])
    executing = make()
    executing.create([{"do": "show the secret"}])
    assert work(executing, shop, mask=Mask(secrets_of({"user_database": shop}))) == {"success": 1}
    assert executing.rows(OUTPUTS) == [([False, False],)]
    ((log,),) = executing.rows(LOGS)
    assert "password: ***" in log
    assert password not in log


def test_a_workflow_without_a_database_says_which_field_it_needs(make: Make, shop: str) -> None:
    executing = make("count_once", database=None)
    executing.create([{}])
    executing.worker().work()
    assert "give its field `database` an Airflow connection" in executing.rows(ENDS)[0][2]


def test_a_process_keeps_its_connection_from_run_to_run(make: Make, shop: str) -> None:
    executing = make()
    executing.create([{"do": "pid"}] * 20)
    assert work(executing, shop) == {"success": 20}
    assert len({tuple(output) for (output,) in executing.rows(OUTPUTS)}) == 1


def test_the_time_in_which_a_run_waits_until_its_step_is_stored_does_not_count(
    make: Make, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResultStore.store_steps

    def slowly(self: ResultStore, given: Any) -> Any:
        time.sleep(1.5)
        return store(self, given)

    monkeypatch.setattr(ResultStore, "store_steps", slowly)
    executing = make(timeout=2)
    executing.create([{"do": "again"}])
    assert work(executing, shop) == {"failed": 1, "success": 1}


def test_a_step_whose_stored_answer_was_lost_is_stored_once(
    make: Make, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_store, "_MAX_DELAY_SECONDS", 0)
    store = lifecycle.store_steps
    lost: list[Any] = []

    def lose_the_first_answer(connection: Any, worker_id: Any, given: Any) -> Any:
        if lost:
            return store(connection, worker_id, given)
        with connect(executing.url) as another:
            lost.append(store(another, worker_id, given))
        raise psycopg.OperationalError("the connection broke after the commit")

    monkeypatch.setattr(lifecycle, "store_steps", lose_the_first_answer)
    executing = make()
    executing.create([{"do": "again"}])
    assert work(executing, shop) == {"failed": 1, "success": 1}
    assert [row[0] for row in executing.rows(STEPS)] == ["first", "second"]


@pytest.mark.parametrize("has_row", [False, True], ids=["without its row", "of another run"])
def test_a_worker_that_does_not_own_the_run_stores_no_step_and_its_process_is_killed(
    make: Make, shop: str, tmp_path: Path, *, has_row: bool
) -> None:
    # Without a retry there is nothing to claim, so that the step is the first that asks for the row.
    executing, file = make(retries={}), tmp_path / "process"
    executing.create([{"do": "stay", "file": str(file)}])
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(executing.worker(user_database=shop, heartbeat_seconds=3600).work)
        eventually(lambda: file.exists() and file.read_text(), seconds=30, what="the step")
        process = int(file.read_text())
        if has_row:
            with connect(executing.url) as connection:
                change = "UPDATE workorders.runs SET worker_id = gen_random_uuid() WHERE workflow_id = %s"
                connection.execute(change, [executing.workflow.id])
        else:
            executing.recover()
        file.unlink()
        assert isinstance(ended.exception(30), OwnershipLostError) is not has_row
    assert executing.rows(STEPS) == []
    eventually(lambda: not Path(f"/proc/{process}").exists(), seconds=30, what="the end of the process")


def test_a_zombie_that_wakes_up_after_its_retry_has_finished_writes_nothing_more(
    make: Make, shop: str, tmp_path: Path, name: str
) -> None:
    executing, file = make("ship"), tmp_path / "lines"
    executing.create([{"order": name, "file": str(file)}])
    with psycopg.connect(shop) as lock, ThreadPoolExecutor() as threads:
        # The first attempt waits in its transaction until it is a zombie.
        lock.execute("LOCK TABLE counters")
        zombie = threads.submit(executing.worker(user_database=shop, heartbeat_seconds=3600).work)
        eventually(lambda: _waits_for_a_lock(shop), seconds=30, what="the transaction")
        executing.recover()
        second = threads.submit(work, executing, shop)
        eventually(lambda: executing.states() == [("running", "started")], seconds=30, what="the second attempt")
        lock.rollback()
        assert second.result(60) == {"success": 1}
        assert isinstance(zombie.exception(60), OwnershipLostError)
    assert numbers(shop, [name]) == [1]
    assert [message.key for message in executing.sent] == [name.encode()]


def _waits_for_a_lock(shop: str) -> bool:
    with psycopg.connect(shop) as connection:
        waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return connection.execute(waiting).fetchone() is not None


def test_a_worker_that_is_stopped_stores_what_its_runs_have_finished(make: Make, shop: str, tmp_path: Path) -> None:
    executing, file = make("count_and_stay"), tmp_path / "process"
    executing.create([{"file": str(file)}])
    worker = executing.worker(user_database=shop)
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(worker.work)
        eventually(file.exists, seconds=30, what="the run")
        worker.stop()
        ended.result(30)
    assert [row[0] for row in executing.rows(STEPS)] == ["count"]


def test_a_killed_worker_loses_no_step(make: Make, shop: str, tmp_path: Path) -> None:
    executing, file = make("count_and_stay"), tmp_path / "process"
    executing.create([{"file": str(file)}])
    # The step is stored although the run goes on.
    executing.lose(lambda: file.exists() and executing.rows(STEPS), user_database=shop)
    assert [row[0] for row in executing.rows(STEPS)] == ["count"]
    file.unlink()
    assert work(executing, shop) == {"success": 1}


def test_a_worker_that_is_killed_between_the_commit_of_a_step_and_its_answer_loses_no_step(
    make: Make, shop: str, tmp_path: Path, name: str
) -> None:
    executing, file = make("ship"), tmp_path / "lines"
    executing.create([{"order": name, "file": str(file)}])
    pid = os.fork()
    if pid == 0:
        store = ResultStore.store_steps
        ResultStore.store_steps = lambda *given: (store(*given), os.kill(os.getpid(), signal.SIGKILL))  # type: ignore
        try:
            executing.worker(user_database=shop).work()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert [(row[0], row[3]) for row in executing.rows(STEPS)] == [("line", 1)]
    executing.recover()
    assert work(executing, shop) == {"success": 1}
    assert (numbers(shop, [name]), len(file.read_text().splitlines())) == ([1], 1)
    assert [message.key for message in executing.sent] == [name.encode()]


@pytest.mark.parametrize(("wakes", "timeout"), [(True, 120), (False, 5)], ids=["and wakes up", "and stays so"])
def test_a_process_that_is_stopped_delays_its_own_run_only(
    make: Make, shop: str, tmp_path: Path, *, wakes: bool, timeout: float
) -> None:
    executing, file = make(processes=2, timeout=timeout), tmp_path / "process"
    executing.create([{"do": "stay", "file": str(file)}, *[{"do": "pid"}] * 20])
    worker = executing.worker(user_database=shop)
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(worker.work)
        eventually(lambda: file.exists() and file.read_text(), seconds=30, what="the step")
        process = file.read_text()
        os.kill(int(process), signal.SIGSTOP)
        eventually(lambda: worker.summary.states["success"] == 20, seconds=60, what="the success of the others")
        if wakes:
            os.kill(int(process), signal.SIGCONT)
        else:
            eventually(lambda: file.read_text() not in {"", process}, seconds=60, what="the next attempt")
        file.unlink()
        assert ended.result(60).states == ({"success": 21} if wakes else {"success": 21, "killed": 1})
    assert [row[3] for row in executing.rows(STEPS) if row[0] == "stay"] == [1 if wakes else 2]


def test_a_rerun_continues_after_committed_steps_and_one_from_the_start_executes_them_again(
    make: Make, shop: str, tmp_path: Path, name: str
) -> None:
    executing, file = make("ship", retries={}), tmp_path / "lines"
    executing.create([{"order": name, "file": str(file), "die": "after the transaction"}])
    assert work(executing, shop) == {"crashed": 1}
    ids = [UUID(id_) for id_ in executing.ids()]
    for from_start, number in ((False, 1), (True, 2), (False, 3)):
        with connect(executing.url) as connection:
            rerun_work_orders(connection, ids, Attribution("ada", "a test"), from_start=from_start)
        assert work(executing, shop) == {"success": 1}
        assert (numbers(shop, [name]), len(file.read_text().splitlines())) == ([number], number)
    assert [(row[0], *row[3:]) for row in executing.rows(STEPS)] == [
        ("line", 1, 1),
        ("count", 1, 1),
        ("line", 3, 2),
        ("count", 3, 2),
        ("line", 4, 3),
        ("count", 4, 3),
    ]
