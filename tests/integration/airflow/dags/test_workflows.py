"""The tasks that execute runs, on a real database, and an Airflow that is a table of Dag runs."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from local_stack.stack import LocalStack
from support.dag_runs import DagRuns
from support.executing import Executing
from support.proxies import HangingProxy
from support.step_functions import user_database
from support.tries import a_try
from workorders.airflow.dags.workflows import ExecuteRunsOperator
from workorders.airflow.retries import unlimited_retries
from workorders.core import schema
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres import connection
from workorders.core.worker.exceptions import ExecutionError

pytestmark = pytest.mark.integration

Make = Callable[..., Executing]
TRY: Any = a_try()
LOGS = """
    SELECT log FROM workorders.run_results JOIN workorders.runs ON runs.id = run_id
    WHERE workflow_id = %(workflow_id)s AND log <> ''
"""


@pytest.fixture(autouse=True)
def connections(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connection, as its environment gives it."""
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)


@pytest.fixture
def make(stack: LocalStack, name: str) -> Make:
    """Makes a workflow of this test."""
    return lambda function="behave", **fields: Executing(stack.database_url, name, function, **fields)


def definition(executing: Executing) -> WorkflowDefinition:
    assert executing.workflow.definition is not None
    return executing.workflow.definition


def test_no_task_waits_indefinitely_for_a_database_that_does_not_answer_before_its_first_run(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    executing = make()
    with HangingProxy(executing.url) as proxy:
        monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", re.sub(r":\d+/", f":{proxy.port}/", executing.url))
        monkeypatch.setattr(connection, "MAX_ANSWER_SECONDS", 1.0)
        monkeypatch.setattr(schema, "require_sequences_ahead", lambda _: proxy.hang())
        with pytest.raises(ExecutionError, match="did not answer for 1 s"):
            ExecuteRunsOperator(task_id="execute", definition=definition(executing)).execute(TRY)


def test_failures_of_runs_leave_the_task_green(make: Make) -> None:
    executing = make()
    executing.create([{"do": "echo"}, {"do": "fail"}, {"do": "echo"}])
    ExecuteRunsOperator(task_id="execute", definition=definition(executing)).execute(TRY)
    assert [state for state, _ in executing.states()] == ["success", "failed", "success"]


def test_what_a_run_publishes_is_in_the_outbox_once_it_has_succeeded(make: Make) -> None:
    executing = make()
    executing.create([{"do": "publish"}, {"do": "publish", "fail": True}])
    before = executing.rows("SELECT count(*) FROM workorders.outbox_messages")[0][0]
    ExecuteRunsOperator(task_id="execute", definition=definition(executing)).execute(TRY)
    assert executing.rows("SELECT count(*) FROM workorders.outbox_messages")[0][0] == before + 2


def test_a_function_writes_to_the_database_that_its_workflow_names(
    make: Make, stack: LocalStack, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = user_database(stack, name)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", shop)
    executing = make(callable="support.step_functions:attempt", database="shop_db")
    executing.create([{"do": "show the secret"}])
    ExecuteRunsOperator(task_id="execute", definition=definition(executing)).execute(TRY)
    assert executing.states() == [("success", "success")]
    ((log,),) = executing.rows(LOGS)
    assert "password: ***" in log


def test_a_callable_that_cannot_be_imported_fails_the_task_with_the_sentence(make: Make) -> None:
    executing = make("missing")
    executing.create([{}])
    with pytest.raises(ExecutionError, match=rf"Workflow {executing.name}: .*missing.* Next try in 1 s\."):
        ExecuteRunsOperator(task_id="execute", definition=definition(executing), **unlimited_retries()).execute(TRY)
    assert [state for state, _ in executing.states()] == ["requeued"]


def test_runs_of_a_task_that_died_are_found_by_the_next_one(make: Make) -> None:
    executing = make()
    executing.create([{"do": "echo"}])
    executing.claim_and_fall_silent()
    ExecuteRunsOperator(task_id="execute", definition=definition(executing)).execute(TRY)
    assert executing.states() == [("success", "success")]


def test_a_task_waits_for_more_runs_until_its_dag_is_paused(
    make: Make, dag_runs: DagRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workorders.core.worker.worker._ASK_SECONDS", 0.5)
    executing = make(linger=600)
    operator = ExecuteRunsOperator(task_id="execute", definition=definition(executing), dag=DAG("visits_runs"))

    def follow_up() -> None:
        states = [state for state, _ in executing.states()]
        if not states:
            executing.create([{"do": "echo"}])
        elif states == ["success"]:
            dag_runs.paused.add("visits_runs")

    dag_runs.on_is_paused = follow_up
    operator.execute(TRY)
    assert executing.states() == [("success", "success")]


def test_a_wait_ends_if_airflow_does_not_answer(make: Make, dag_runs: DagRuns) -> None:
    dag_runs.never_answers = lambda _: True
    ExecuteRunsOperator(task_id="execute", definition=definition(make(linger=600))).execute(TRY)
    assert dag_runs.asked == ["GetDag"]


@pytest.fixture
def dag_runs(monkeypatch: pytest.MonkeyPatch) -> DagRuns:
    """An Airflow in place of the supervisor that a task talks to."""
    return DagRuns.in_place(monkeypatch)


def execute_until_finished(executing: Executing) -> None:
    """Run the task as often as the sensor before it would."""
    operator = ExecuteRunsOperator(task_id="execute_runs", definition=definition(executing))
    while {"pending", "requeued", "running"} & {state for state, _ in executing.states()}:
        operator.execute(TRY)


def test_a_run_ends_as_the_dag_run_that_it_started(make: Make, dag_runs: DagRuns) -> None:
    executing = make(None, dag_id="visits", processes=2, timeout=6)
    executing.create([{"end": end} for end in ("success", "failed", "success", "queued")])
    execute_until_finished(executing)
    assert [state for state, _ in executing.states()] == ["success", "failed", "success", "killed"]
    assert len(dag_runs.confs) == 4


def test_an_input_that_the_dag_does_not_take_is_an_exception_of_its_run_alone(make: Make, dag_runs: DagRuns) -> None:
    executing = make(None, dag_id="visits", retries={"max_retries": 3})
    executing.create([{"end": "success"}, {"end": "refused"}, {"end": "success"}])
    executing.create_text([b'{"deep":' + b"[" * 1_010 + b"%d" % 2**64 + b"]" * 1_010 + b"}"])
    execute_until_finished(executing)
    assert [state for state, _ in executing.states()] == ["success", "exception", "success", "exception"]
    errors = executing.rows(
        "SELECT error FROM workorders.runs WHERE workflow_id = %(workflow_id)s AND state = 'exception'"
    )
    assert sorted("Invalid input for param visit" in error for (error,) in errors) == [False, True]


def test_a_dag_that_airflow_does_not_know_leaves_every_work_order_waiting(make: Make, dag_runs: DagRuns) -> None:
    executing = make(None, dag_id="nowhere")
    executing.create([{"end": "success"}] * 3)
    dag_runs.refuse = ErrorType.GENERIC_ERROR
    with pytest.raises(ExecutionError, match="Next try in 1 s") as raised:
        ExecuteRunsOperator(task_id="execute", definition=definition(executing), **unlimited_retries()).execute(TRY)
    assert isinstance(raised.value.__cause__, AirflowRuntimeError)
    assert [state for state, _ in executing.states()] == ["requeued"] * 3


def test_a_task_that_is_killed_before_it_has_a_group_claims_nothing(make: Make) -> None:
    executing = make()
    executing.create([{"do": "nothing"}])
    operator = ExecuteRunsOperator(task_id="execute", definition=definition(executing))
    operator.on_kill()
    operator.execute(TRY)
    assert [state for state, _ in executing.states()] == ["pending"]
