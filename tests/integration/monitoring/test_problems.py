"""Workflows whose work orders could run while none does."""

from datetime import UTC, datetime, timedelta

import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from workorders.core.history.workload import list_workloads
from workorders.core.postgres.connection import Connection
from workorders.monitoring.problems import MAX_IDLE, find_idle

pytestmark = pytest.mark.integration


def idle(connection: Connection, name: str, *, in_: timedelta = MAX_IDLE + timedelta(minutes=1)) -> list[str]:
    """Return the idle workflows of one name, as they are found after a while."""
    now = datetime.now(UTC) + in_
    found = find_idle(connection, list_workloads(connection, now, workflow=name), now)
    connection.rollback()
    return [workload.workflow for workload in found]


def test_a_workflow_is_idle_once_its_work_orders_wait_for_longer_than_a_worker_needs(
    stack: LocalStack, connection: Connection, name: str
) -> None:
    work = Executing(stack.database_url, name)
    assert idle(connection, name) == []
    work.create([{"do": "echo"}])
    assert idle(connection, name, in_=MAX_IDLE - timedelta(minutes=1)) == []
    assert idle(connection, name) == [name]
    work.worker().work()
    assert idle(connection, name) == []


def test_a_workflow_whose_retry_is_not_due_is_not_idle(stack: LocalStack, connection: Connection, name: str) -> None:
    work = Executing(stack.database_url, name, retries={"max_retries": 2, "first_delay": 3600})
    work.create([{"do": "fail"}])
    work.worker().work()
    assert idle(connection, name) == []
    work.create([{"do": "echo"}])
    assert idle(connection, name) == [name]


def test_runs_of_a_dead_worker_do_not_hide_that_a_workflow_is_idle(
    stack: LocalStack, connection: Connection, name: str
) -> None:
    work = Executing(stack.database_url, name)
    work.create([{"do": "echo"}])
    work.claim_and_fall_silent()
    (workload,) = list_workloads(connection, datetime.now(UTC), workflow=name)
    assert workload.running == 0
    work.create([{"do": "echo"}])
    assert idle(connection, name) == [name]
