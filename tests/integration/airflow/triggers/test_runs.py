"""The trigger that waits for runs, on a real database, in one event loop as in the triggerer."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from airflow.triggers.base import TaskSkippedEvent, TaskSuccessEvent, TriggerEvent

from local_stack.stack import LocalStack
from support.executing import Executing
from workorders.airflow.triggers import runs
from workorders.airflow.triggers.polling import FAILED, in_use
from workorders.airflow.triggers.runs import WaitForRunsTrigger
from workorders.core import workflows
from workorders.core.postgres.connection import connect

pytestmark = pytest.mark.integration

SECONDS = 60.0
Make = Callable[[str], Executing]


@pytest.fixture(autouse=True)
def airflow(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connection, as its environment gives it, and a look ten times a second."""
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    monkeypatch.setattr(runs, "POLL_SECONDS", 0.1)


@pytest.fixture
def make(stack: LocalStack) -> Make:
    """Makes workflows of this test."""
    return lambda name: Executing(stack.database_url, name)


def trigger(name: str, idle_after: float = SECONDS, **fields: Any) -> WaitForRunsTrigger:
    definition = {"name": name, "callable": "support.run_functions:behave", **fields}
    return WaitForRunsTrigger(definition=definition, idle_after=idle_after)


def connections(stack: LocalStack) -> int:
    """Return how many connections the triggers hold."""
    query = "SELECT FROM pg_stat_activity WHERE application_name = 'workorders triggerer'"
    with connect(stack.database_url) as connection:
        return len(connection.execute(query).fetchall())


async def first(waiting: WaitForRunsTrigger) -> TriggerEvent:
    return await asyncio.wait_for(anext(waiting.run()), SECONDS)


def test_it_fires_once_a_work_order_waits_and_not_before(name: str, make: Make, loop: asyncio.Runner) -> None:
    executing = make(name)

    async def wait_and_create() -> TriggerEvent:
        task = asyncio.create_task(first(trigger(name)))
        done, _ = await asyncio.wait({task}, timeout=1)
        assert not done
        await asyncio.to_thread(executing.create, [{}])
        return await task

    assert isinstance(loop.run(wait_and_create()), TaskSuccessEvent)


def test_many_that_wait_share_one_connection_and_only_the_right_one_fires(
    name: str, make: Make, loop: asyncio.Runner, stack: LocalStack
) -> None:
    makers = [make(f"{name}-{number}") for number in range(20)]

    async def wait_all() -> list[int]:
        tasks = [asyncio.create_task(first(trigger(maker.name))) for maker in makers]
        await asyncio.wait(tasks, timeout=1)
        # Those of an earlier test may end a moment later.
        async with asyncio.timeout(SECONDS):
            while await asyncio.to_thread(connections, stack) != 1:
                await asyncio.sleep(0.1)
        await asyncio.to_thread(makers[7].create, [{}])
        await asyncio.wait(tasks, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
        fired = [number for number, task in enumerate(tasks) if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return fired

    assert loop.run(wait_all()) == [7]
    assert not in_use


def test_the_wait_registers_the_workflow_unless_a_definition_that_may_be_newer_is_known(
    name: str, loop: asyncio.Runner, stack: LocalStack
) -> None:
    for concurrency in (3, 4):
        loop.run(first(trigger(name, idle_after=2.0, concurrency=concurrency)))
        with connect(stack.database_url) as connection:
            assert workflows.find(connection, name).concurrency == 3


def test_a_wait_without_runs_ends_as_skipped(name: str, make: Make, loop: asyncio.Runner) -> None:
    assert isinstance(loop.run(first(trigger(make(name).name, idle_after=0.3))), TaskSkippedEvent)


def test_a_definition_that_is_wrong_fails_the_task(name: str, loop: asyncio.Runner) -> None:
    assert FAILED in loop.run(first(trigger(name, concurrency=0))).payload


@pytest.mark.parametrize("fields", [{}, {"dag_id": "admissions"}])
def test_it_can_be_created_from_what_it_serializes(fields: dict[str, str]) -> None:
    path, arguments = WaitForRunsTrigger(definition={"name": "admit", **fields}).serialize()
    assert path == "workorders.airflow.triggers.runs.WaitForRunsTrigger"
    assert WaitForRunsTrigger(**arguments, from_a_newer_version=1).serialize() == (path, arguments)
