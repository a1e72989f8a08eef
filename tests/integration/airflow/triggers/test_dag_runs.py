"""The trigger that waits for Dag runs, on a real database and an Airflow that is a table of Dag runs."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from local_stack.stack import LocalStack
from support.dag_runs import DagRuns
from support.executing import Executing
from workorders.airflow.dag_runs.executor import DagRunExecutor
from workorders.airflow.triggers import runs
from workorders.airflow.triggers.runs import WaitForRunsTrigger

pytestmark = pytest.mark.integration

SECONDS = 60.0
WHILE_NOTHING_ENDS = 1.0
Make = Callable[..., Executing]


@pytest.fixture(autouse=True)
def airflow(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> DagRuns:
    """Airflow's connection and its Dag runs, and a look ten times a second."""
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    monkeypatch.setattr(runs, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(runs, "DAG_RUNS_POLL_SECONDS", 0.1)
    return DagRuns.in_place(monkeypatch)


@pytest.fixture
def make(stack: LocalStack, name: str) -> Make:
    """Makes a workflow of this test whose runs are Dag runs."""
    return lambda **fields: Executing(stack.database_url, name, None, **{"dag_id": "visits", **fields})


async def first(executing: Executing) -> TriggerEvent:
    """Wait in the triggerer for what the sensor waits for."""
    assert executing.workflow.definition is not None
    definition = executing.workflow.definition.model_dump(mode="json")
    return await asyncio.wait_for(anext(WaitForRunsTrigger(definition=definition).run()), SECONDS)


def start(executing: Executing) -> None:
    """Do what the task does behind the sensor."""
    DagRunExecutor(executing.url, executing.workflow, log=executing.logged.append).work()


def fires_only_after(loop: asyncio.Runner, executing: Executing, change: Callable[[], Any]) -> None:
    """Wait, see that nothing fires, change something, and see that it fires."""

    async def wait() -> None:
        task = asyncio.create_task(first(executing))
        done, _ = await asyncio.wait({task}, timeout=WHILE_NOTHING_ENDS)
        assert not done
        await asyncio.to_thread(change)
        assert isinstance(await task, TaskSuccessEvent)

    loop.run(wait())


def test_it_fires_for_a_work_order_that_waits_and_then_only_when_its_dag_run_has_ended(
    make: Make, airflow: DagRuns, loop: asyncio.Runner
) -> None:
    executing = make()
    executing.create([{"end": "running"}])
    assert isinstance(loop.run(first(executing)), TaskSuccessEvent)
    start(executing)
    fires_only_after(loop, executing, lambda: airflow.states.update(dict.fromkeys(airflow.confs, "success")))


def test_it_fires_when_a_dag_run_was_deleted(make: Make, airflow: DagRuns, loop: asyncio.Runner) -> None:
    executing = make()
    executing.create([{"end": "running"}])
    start(executing)
    fires_only_after(loop, executing, airflow.confs.clear)


def test_it_fires_when_a_dag_run_has_lasted_too_long(make: Make, loop: asyncio.Runner) -> None:
    executing = make(timeout=6)
    executing.create([{"end": "running"}])
    start(executing)
    fires_only_after(loop, executing, lambda: None)


def test_it_fires_for_the_runs_of_a_task_that_died_before_it_started_them(
    make: Make, airflow: DagRuns, loop: asyncio.Runner
) -> None:
    executing = make()
    executing.create([{}])

    def die(_: dict[str, Any]) -> None:
        raise RuntimeError

    airflow.on_start = die
    with pytest.raises(RuntimeError):
        start(executing)
    assert isinstance(loop.run(first(executing)), TaskSuccessEvent)


def test_it_waits_with_a_retry_for_the_dag_run_of_the_attempt_that_was_killed(
    make: Make, airflow: DagRuns, loop: asyncio.Runner
) -> None:
    executing = make(timeout=6, retries={"max_retries": 1, "first_delay": 0})
    executing.create([{"end": "running"}])
    start(executing)
    loop.run(first(executing))
    start(executing)
    assert executing.states() == [("running", "claimed")]
    fires_only_after(loop, executing, lambda: airflow.states.update(dict.fromkeys(airflow.confs, "success")))


@pytest.mark.parametrize(
    "fields",
    [{"processes": 1}, {"ordering_key": "stream"}, {"concurrency": 1}],
    ids=["processes", "ordering_key", "concurrency"],
)
def test_it_does_not_fire_for_work_orders_that_must_wait_for_the_end_of_a_dag_run(
    make: Make, airflow: DagRuns, loop: asyncio.Runner, fields: dict[str, Any]
) -> None:
    executing = make(**fields)
    executing.create([{"end": "running"}] * 3, stream="ward")
    start(executing)
    assert len(airflow.confs) == 1
    fires_only_after(loop, executing, lambda: airflow.states.update(dict.fromkeys(airflow.confs, "success")))


def test_it_fires_for_an_ordering_key_next_to_those_whose_dag_runs_continue(
    make: Make, airflow: DagRuns, loop: asyncio.Runner
) -> None:
    executing = make(ordering_key="stream")
    executing.create([{"end": "running"}] * 3, stream="ward")
    start(executing)
    fires_only_after(loop, executing, lambda: executing.create([{}], stream="theater"))
    start(executing)
    assert len(airflow.confs) == 2


def test_an_outage_of_airflow_is_waited_for(make: Make, airflow: DagRuns, loop: asyncio.Runner) -> None:
    executing = make()
    executing.create([{"end": "success"}])
    start(executing)
    airflow.looks.update(dict.fromkeys(airflow.confs, 2))
    airflow.silent_for = ["GetDRCount"]
    assert isinstance(loop.run(first(executing)), TaskSuccessEvent)
    assert airflow.silent_for == []
