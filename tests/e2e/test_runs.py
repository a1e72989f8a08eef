"""From waiting work orders to finished ones: the DAG of a workflow executes them."""

from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Run
from support.eventually import eventually
from support.workflow_in_airflow import Orders

SECONDS = 420.0


@pytest.fixture(scope="module")
def behaved(airflow_stack: LocalStack) -> list[tuple[str, str, str | None, str | None, str | None]]:
    """What became of work orders of which some end badly."""
    orders = Orders(airflow_stack.database_url, "behave")
    ways = ["echo", "fail", "echo", "exit process", "echo", "sleep", "echo"]
    orders.create([{"do": way, "word": "no bed is free"} for way in ways])
    return eventually(orders.finished, seconds=SECONDS, what="the end of all runs of behave")


def test_a_workflows_dag_executes_what_waits_and_shows_each_failure_as_its_runs(
    api: AirflowApi, behaved: list[tuple[str, str, str | None, str | None, str | None]]
) -> None:
    assert [row[:3] for row in behaved] == [
        ("success", "success", None),
        ("failed", "failed", "ValueError"),
        ("success", "success", None),
        ("crashed", "crashed", "ProcessExit"),
        ("success", "success", None),
        ("killed", "killed", "TimeoutError"),
        ("success", "success", None),
    ]
    _, failed, _, crashed, _, killed, _ = behaved
    assert failed[3] == "no bed is free"
    assert (failed[4] or "").endswith("ValueError: no bed is free\n")
    assert "exit code 7" in (crashed[3] or "")
    assert crashed[4] == "last words\n"
    assert "timeout (10 s)" in (killed[3] or "")
    (run, *_) = eventually(lambda: _in_state(api, "behave_runs", "success"), seconds=SECONDS, what="its end")
    wait, execute = api.task(run, "wait_for_runs"), api.task(run, "execute_runs")
    assert (wait.state, wait.pid, execute.state) == ("success", None, "success")
    log = api.log_text(execute)
    assert "failed: ValueError: no bed is free" in log
    assert "4 success" in log


def test_a_workflow_may_run_a_dag_whose_end_is_the_end_of_its_run(airflow_stack: LocalStack, api: AirflowApi) -> None:
    orders = Orders(airflow_stack.database_url, "visits")
    orders.create([{"fail": False, "bed": 3}, {"fail": True, "bed": 4}])
    good, bad = eventually(orders.finished, seconds=SECONDS, what="the end of all runs of visits")
    assert good[:3] == ("success", "success", None)
    assert bad[:3] == ("failed", "failed", "DagRunFailed")
    told = {run.id: run.conf["workorders_context"] for run in api.runs("visits")}
    assert {dag_run_id: f"run_{context['run_id']}" for dag_run_id, context in told.items()} == {
        id_: id_ for id_ in told
    }
    assert {(context["workflow"], context["attempt"]) for context in told.values()} == {("visits", 1)}

    # The next task attaches to what one that died has left behind.
    left: list[str] = []

    def leave(run_id: UUID) -> None:
        conf = {"fail": False, "bed": 5, "workorders_context": "of a task that died"}
        left.append(api.trigger("visits", conf, run_id=f"run_{run_id}"))

    orders.create_claimed({"fail": False, "bed": 5}, leave)
    (*_, last) = eventually(orders.finished, seconds=SECONDS, what="its success")
    assert last[:2] == ("success", "success")
    assert {run.id for run in api.runs("visits")} == {*told, *left}


@pytest.mark.usefixtures("one_worker")
def test_a_workflow_that_runs_a_dag_holds_no_slot_while_its_dag_runs_run(
    airflow_stack: LocalStack, api: AirflowApi
) -> None:
    orders = Orders(airflow_stack.database_url, "visits")
    finished = len(api.runs("visits"))
    orders.create([{"fail": False, "bed": bed} for bed in (6, 7)])
    eventually(orders.finished, seconds=SECONDS, what="the end of runs whose Dag runs need the only slot")
    assert [run.state for run in api.runs("visits")].count("success") >= 2
    assert len(api.runs("visits")) == finished + 2


def _in_state(api: AirflowApi, dag_id: str, state: str) -> list[Run]:
    return [run for run in api.runs(dag_id) if run.state == state]
