"""What each workflow has to do now."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from workorders.core.history import workload
from workorders.core.history.workload import Workload, ended_per_minute, list_workloads
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

pytestmark = pytest.mark.integration

BOUND = 3


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "MAX_COUNTED", BOUND)


def workloads(connection: Connection, *works: Executing, in_: timedelta = timedelta()) -> list[Workload]:
    """Return what some workflows have to do, as it is found after a while among all workflows."""
    found = {work.workflow: work for work in list_workloads(connection, datetime.now(UTC) + in_)}
    return [found[work.name] for work in works]


def put_into_states(connection: Connection, work: Executing, *states: str) -> None:
    """Give each work order a state, which the end of the test takes back."""
    connection.execute(
        """
        UPDATE workorders.work_orders SET state = given.state
        FROM (
            SELECT id, (%(states)s::workorders.work_order_state[])[row_number() OVER (ORDER BY id)] AS state
            FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s
        ) AS given
        WHERE work_orders.id = given.id
        """,
        {"states": list(states), "workflow_id": work.workflow.id},
    )


def test_each_workflow_counts_to_the_bound_for_itself(stack: LocalStack, connection: Connection, name: str) -> None:
    many, few = Executing(stack.database_url, f"{name}-many"), Executing(stack.database_url, f"{name}-few")
    many.create([{}] * 2 * (BOUND + 2))
    few.create([{}] * 2 * BOUND)
    put_into_states(connection, many, *["failed", "parked"] * (BOUND + 2))
    put_into_states(connection, few, *["lost", "parked"] * BOUND)
    counted = [(found.failed, found.parked) for found in workloads(connection, many, few)]
    assert counted == [(BOUND + 1, BOUND + 1), (BOUND, BOUND)]


def test_a_failure_of_any_kind_counts_for_a_day(stack: LocalStack, connection: Connection, name: str) -> None:
    work = Executing(stack.database_url, name)
    work.create([{}] * 5)
    put_into_states(connection, work, "crashed", "exception", "killed", "success", "cancelled")
    assert workloads(connection, work)[0].failed == 3
    assert workloads(connection, work, in_=workload.RECENT + timedelta(minutes=1))[0].failed == 0


def test_the_rate_at_which_runs_end_is_the_mean_of_the_time_that_the_newest_runs_cover(
    stack: LocalStack, connection: Connection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Executing(stack.database_url, name)
    work.create([{"do": "echo"}] * 4)
    work.worker().work()
    connection.execute(
        "UPDATE workorders.runs SET created_at = now() - interval '5 minutes' WHERE workflow_id = %s",
        [work.workflow.id],
    )
    # Other tests may have left runs that are newer, some of them in the future; they come back with the rollback.
    connection.execute("DELETE FROM workorders.runs WHERE workflow_id <> %s", [work.workflow.id])
    now = datetime.now(UTC)
    assert ended_per_minute(connection, now)[name] == pytest.approx(4 / 20)
    monkeypatch.setattr(workload, "NEWEST_RUNS", 3)
    assert ended_per_minute(connection, now)[name] == pytest.approx(3 / 5, rel=0.1)
    assert name not in ended_per_minute(connection, now + timedelta(hours=1))


def test_failures_and_requeued_and_parked_work_orders_are_counted_by_the_index_of_their_workflow(
    connection: Connection,
) -> None:
    query = load_queries("workorders.core.history", "sql/workload.sql")["workloads"]
    wanted: dict[str, Any] = {
        "workflow": None,
        "max_counted": BOUND,
        "first_id": "00000000-0000-0000-0000-000000000000",
    }
    connection.execute("SET LOCAL enable_seqscan = off")
    (plan,) = connection.execute("EXPLAIN (FORMAT JSON) " + query, wanted).fetchone() or ({},)
    assert str(plan).count("'work_orders_unsuccessful_idx'") == 3
    assert "work_orders_few_idx" not in str(plan)
