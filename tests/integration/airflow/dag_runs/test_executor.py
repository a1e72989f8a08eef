"""What becomes of runs that are Dag runs, on a real database, and an Airflow that is a table of Dag runs."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

from local_stack.stack import LocalStack
from support.dag_runs import DagRuns
from support.eventually import eventually
from support.executing import Executing
from support.working import expire_workers
from workorders.airflow.dag_runs.executor import DagRunExecutor
from workorders.core.postgres.connection import connect
from workorders.core.runs import delegation, lifecycle
from workorders.core.runs.lifecycle import Recovered
from workorders.core.worker.result_store import RunSummary

pytestmark = pytest.mark.integration

Make = Callable[..., Executing]


@pytest.fixture
def make(stack: LocalStack, name: str) -> Make:
    """Makes a workflow of this test whose runs are Dag runs."""
    return lambda **fields: Executing(stack.database_url, name, None, **{"dag_id": "visits", **fields})


@pytest.fixture
def dag_runs(monkeypatch: pytest.MonkeyPatch) -> DagRuns:
    """An Airflow in place of the supervisor that a task talks to."""
    return DagRuns.in_place(monkeypatch)


def one_pass(executing: Executing) -> RunSummary:
    """Record ends and start runs, as one task does."""
    return DagRunExecutor(executing.url, executing.workflow, log=executing.logged.append).work()


def follow(executing: Executing) -> RunSummary:
    """Do passes until nothing is left, as tasks do one after the other; one that fails is tried again."""
    total = RunSummary()
    while True:
        executor = DagRunExecutor(executing.url, executing.workflow, log=executing.logged.append)
        try:
            executor.work()
        except AirflowRuntimeError as error:
            executing.logged.append(f"failed: {error}")
        total.states += executor.summary.states
        if not any(state in UNFINISHED for state, _ in executing.states()):
            return total
        time.sleep(0.05)


UNFINISHED = {"pending", "requeued", "running"}

WORDS = """
    SELECT body ->> 'word', runs.state::text
    FROM workorders.runs JOIN workorders.dataclips ON dataclips.id = work_order_id
    WHERE workflow_id = %(workflow_id)s
"""


def ordering_keys(numbers: range) -> list[dict[str, Any]]:
    """Return inputs of three ordering keys, whose third one fails at the first attempt."""
    return [
        {"ordering_key": ordering_key, "number": number, "word": f"{ordering_key}:{number}"}
        for number in numbers
        for ordering_key in ("a", "b", "c")
    ]


def test_an_ordering_key_has_one_dag_run_at_a_time_in_the_order_of_the_source_and_ordering_keys_go_side_by_side(
    make: Make, dag_runs: DagRuns
) -> None:
    executing = make(ordering_key="body:/ordering_key", processes=6)
    executing.create(ordering_keys(range(4)), stream="ward")
    begun: list[str] = []
    side_by_side: list[int] = []

    def starts(conf: dict[str, Any]) -> None:
        states = dict(executing.rows(WORDS))
        before = [f"{conf['ordering_key']}:{number}" for number in range(conf["number"])]
        assert [states[word] for word in before] == ["success"] * len(before)
        begun.append(conf["word"])
        side_by_side.append(sum(state in {"claimed", "started"} for state in states.values()))

    dag_runs.on_start = starts
    assert follow(executing).states == {"success": 12}
    assert {
        ordering_key: [word for word in begun if word.startswith(ordering_key)] for ordering_key in ("a", "b", "c")
    } == {ordering_key: [f"{ordering_key}:{number}" for number in range(4)] for ordering_key in ("a", "b", "c")}
    assert max(side_by_side) == 3


def test_a_run_after_a_retry_in_its_ordering_key_waits_for_it(make: Make, dag_runs: DagRuns) -> None:
    # All are claimed at once, and so those behind the retry are the group's when it fails.
    executing = make(ordering_key="body:/ordering_key", processes=12, retries={"max_retries": 1, "first_delay": 0})
    executing.create(ordering_keys(range(4)), stream="ward")
    begun: list[str] = []

    def starts(conf: dict[str, Any]) -> None:
        conf["end"] = "failed" if conf["number"] == 1 and conf["word"] not in begun else "success"
        begun.append(conf["word"])

    dag_runs.on_start = starts
    eventually(
        lambda: follow(executing) and {state for state, _ in executing.states()} == {"success"},
        seconds=60,
        what="the success of all",
    )
    for ordering_key in ("a", "b", "c"):
        assert [word for word in begun if word.startswith(ordering_key)] == [
            f"{ordering_key}:{number}" for number in (0, 1, 1, 2, 3)
        ]


class DiedError(Exception):
    """A task that dies where this is raised."""


@pytest.mark.parametrize("where", ["before Airflow takes the Dag run", "before the task records that"])
def test_a_task_that_dies_while_it_starts_a_dag_run_costs_nothing_and_the_next_one_attaches(
    make: Make, dag_runs: DagRuns, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    executing = make(retries=AT_ONCE)
    executing.create([{}])

    def die(*_: object) -> None:
        raise DiedError

    with monkeypatch.context() as patched:
        if where == "before Airflow takes the Dag run":
            dag_runs.on_start = die
        else:
            patched.setattr(lifecycle, "start", die)
        with pytest.raises(DiedError):
            one_pass(executing)
    dag_runs.on_start = lambda _: None
    assert executing.states() == [("running", "claimed")]
    assert follow(executing).states == {"success": 1}
    assert (len(dag_runs.confs), executing.rows(ENDS)) == (1, [(1, "success")])


@pytest.mark.parametrize("asks", [True, False], ids=["before it asks", "after it asked"])
def test_a_task_that_hung_while_the_next_one_started_its_dag_run_starts_no_other(
    make: Make, dag_runs: DagRuns, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    executing = make()
    executing.create([{}])
    is_delegated = delegation.is_delegated

    def hang(*arguments: Any) -> bool:
        with monkeypatch.context() as patched:
            patched.setattr(delegation, "is_delegated", is_delegated)
            one_pass(executing)
        return is_delegated(*arguments) if asks else True

    with monkeypatch.context() as patched:
        patched.setattr(delegation, "is_delegated", hang)
        one_pass(executing)
    assert dag_runs.asked.count("TriggerDagRun") == (1 if asks else 2)
    assert (len(dag_runs.confs), executing.states()) == (1, [("running", "started")])
    assert follow(executing).states == {"success": 1}


def test_dag_runs_that_airflow_has_taken_are_watched_to_their_ends_when_it_takes_no_more(
    make: Make, dag_runs: DagRuns
) -> None:
    executing = make(processes=3)
    executing.create([{}] * 4)

    def starts(_: dict[str, Any]) -> None:
        if len(dag_runs.confs) == 1:
            dag_runs.refuse = ErrorType.GENERIC_ERROR

    dag_runs.on_start = starts
    for _ in range(3):
        with pytest.raises(AirflowRuntimeError):
            one_pass(executing)
    assert sorted(state for state, _ in executing.states()) == ["requeued"] * 2 + ["success"] * 2


def recover(executing: Executing) -> Recovered:
    """Find lost runs, after a silence of any length."""
    with connect(executing.url) as connection:
        expire_workers(connection, executing.workflow)
        return lifecycle.recover_lost(connection, executing.workflow)


ENDS = """
    SELECT attempt, state::text FROM workorders.runs WHERE workflow_id = %(workflow_id)s ORDER BY attempt
"""
AT_ONCE = {"max_retries": 1, "first_delay": 0}


@pytest.mark.parametrize("end", ["success", "failed"])
def test_a_run_is_not_lost_while_its_dag_run_continues_in_silence(make: Make, dag_runs: DagRuns, end: str) -> None:
    executing = make()
    executing.create([{"end": end}])
    one_pass(executing)
    assert recover(executing) == Recovered()
    follow(executing)
    assert executing.rows(ENDS) == [(1, end)]
    assert len(dag_runs.confs) == 1


def test_the_runs_of_a_workflow_that_has_a_callable_by_now_are_lost_because_their_dag_runs_are_not_watched(
    make: Make, dag_runs: DagRuns, stack: LocalStack, name: str
) -> None:
    executing = make()
    executing.create([{}])
    one_pass(executing)
    changed = Executing(stack.database_url, name)
    assert recover(changed) == Recovered(lost=1)
    assert len(dag_runs.confs) == 1


def test_a_retry_waits_for_the_dag_run_of_an_attempt_that_was_killed(make: Make, dag_runs: DagRuns) -> None:
    executing = make(retries=AT_ONCE, timeout=5)
    executing.create([{"end": "running"}])
    going: list[int] = []

    def starts(conf: dict[str, Any]) -> None:
        going.append(sum(dag_runs.state(dag_run_id) == "running" for dag_run_id in dag_runs.confs))
        if len(going) > 1:
            conf["end"] = "success"

    def ends() -> None:
        if any("waits" in line for line in executing.logged):
            dag_runs.states.update(dict.fromkeys(dag_runs.confs, "success"))

    dag_runs.on_start, dag_runs.on_count = starts, ends
    follow(executing)
    assert executing.rows(ENDS) == [(1, "killed"), (2, "success")]
    assert going == [0, 0]


def test_a_retry_that_waits_beyond_its_own_time_is_killed_and_starts_nothing(make: Make, dag_runs: DagRuns) -> None:
    executing = make(retries=AT_ONCE, timeout=1)
    executing.create([{"end": "running"}])
    follow(executing)
    assert executing.rows(ENDS) == [(1, "killed"), (2, "killed")]
    assert len(dag_runs.confs) == 1
    errors = executing.rows("SELECT error FROM workorders.runs WHERE workflow_id = %(workflow_id)s ORDER BY attempt")
    assert "of an earlier attempt, still runs after timeout (1 s)" in errors[1][0]


def test_a_deleted_dag_run_is_the_end_of_its_run_alone(make: Make, dag_runs: DagRuns) -> None:
    executing = make()
    executing.create([{"number": number} for number in range(3)])

    def look(dag_run_id: str) -> None:
        if dag_runs.confs[dag_run_id]["number"] == 1:
            del dag_runs.confs[dag_run_id]

    dag_runs.on_look = look
    follow(executing)
    assert [state for state, _ in executing.states()] == ["success", "exception", "success"]


FAILURES = "SELECT state::text, error_type, error FROM workorders.runs WHERE workflow_id = %(workflow_id)s"


def test_a_dag_run_finds_the_context_of_its_run_next_to_the_input(make: Make, dag_runs: DagRuns) -> None:
    executing = make()
    executing.create([{"bed": 3}])
    follow(executing)
    ((dag_run_id, conf),) = dag_runs.confs.items()
    context = conf.pop("workorders_context")
    assert conf == {"bed": 3}
    assert (f"run_{context['run_id']}", context["attempt"]) == (dag_run_id, 1)
    assert (context["workflow"], context["trigger"]) == (executing.name, executing.name)


def test_an_input_with_the_key_of_the_context_is_an_exception_of_its_run_that_is_not_tried_again(
    make: Make, dag_runs: DagRuns
) -> None:
    executing = make(context_key="bed", retries=AT_ONCE)
    executing.create([{"bed": 3}, {"room": 4}])
    follow(executing)
    assert executing.states() == [("exception", "exception"), ("success", "success")]
    assert [set(conf) for conf in dag_runs.confs.values()] == [{"bed", "room"}]
    ((_, error_type, error),) = [row for row in executing.rows(FAILURES) if row[0] == "exception"]
    assert error_type == "ContextKeyTakenError"
    assert "context_key" in error


@pytest.mark.parametrize("question", ["GetDagRunState", "TriggerDagRun"])
def test_a_short_silence_of_airflow_costs_no_run_and_starts_none_twice(
    make: Make, dag_runs: DagRuns, question: str
) -> None:
    executing = make()
    executing.create([{}, {}])
    dag_runs.silent_for = [question] * 2
    assert follow(executing).states == {"success": 2}
    assert len(dag_runs.confs) == 2
    assert sum("failed" in line for line in executing.logged) == 1


def test_a_question_that_airflow_never_answers_ends_its_own_run_when_its_time_is_over_and_no_other(
    make: Make, dag_runs: DagRuns
) -> None:
    executing = make(processes=2, timeout=2)
    executing.create([{"number": 0}, {"number": 1, "end": "queued"}])
    dag_runs.never_answers = lambda message: isinstance(message, TriggerDagRun) and (message.conf or {})["number"] == 0
    assert follow(executing).states == {"exception": 1, "killed": 1}
    assert error_of(executing, "exception").startswith("Airflow did not answer within timeout (2 s)")


def error_of(executing: Executing, state: str) -> str:
    [(error,)] = executing.rows(
        f"SELECT error FROM workorders.runs WHERE workflow_id = %(workflow_id)s AND state = '{state}'"
    )
    return str(error)


def test_nothing_more_is_claimed_while_airflow_is_silent(make: Make, dag_runs: DagRuns) -> None:
    executing = make()
    executing.create([{}])
    one_pass(executing)
    executing.create([{}])
    dag_runs.silent_for = ["GetDagRunState"]
    with pytest.raises(AirflowRuntimeError):
        one_pass(executing)
    assert executing.states() == [("running", "started"), ("pending", None)]
    assert follow(executing).states == {"success": 2}


def test_what_has_ended_is_written_down_even_if_airflow_refuses_the_next_question(
    make: Make, dag_runs: DagRuns
) -> None:
    executing = make()
    executing.create([{"number": 0}, {"number": 1}])

    def look(dag_run_id: str) -> None:
        if dag_runs.confs[dag_run_id]["number"] == 1 and "success" in map(dag_runs.state, dag_runs.confs):
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.PERMISSION_DENIED))

    dag_runs.on_look = look
    one_pass(executing)
    one_pass(executing)
    with pytest.raises(AirflowRuntimeError):
        one_pass(executing)
    assert executing.states() == [("success", "success"), ("running", "started")]
