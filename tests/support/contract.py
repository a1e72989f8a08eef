"""What tests of the contract ask of any source's work orders, and how they process them."""

from typing import Any
from uuid import UUID

from support.trigger_types import Event, Source
from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.history import work_orders as history
from workorders.core.history.filters import Filter
from workorders.core.history.work_orders import WorkOrderSummary
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, RunResult
from workorders.core.workers import add_worker


def work_orders(connection: Connection, source: Source, **wanted: Any) -> list[WorkOrderSummary]:
    """Return the work orders of a source, oldest first."""
    listed = history.list_work_orders(connection, Filter(workflow=source.name, **wanted))
    connection.rollback()
    return listed[::-1]


def inputs(connection: Connection, source: Source) -> list[Event]:
    """Return the inputs of a source's work orders, oldest first."""
    rows = connection.execute(
        """
        SELECT dataclips.body FROM workorders.work_orders
        JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
        JOIN workorders.dataclips ON dataclips.id = work_orders.id
        WHERE workflows.name = %s ORDER BY work_orders.id
        """,
        (source.name,),
    ).fetchall()
    connection.rollback()
    return [row[0] for row in rows]


def define_workflow(connection: Connection, source: Source, **fields: Any) -> None:
    """Register the source's workflow, with some fields."""
    definition = WorkflowDefinition.model_validate({"name": source.name, "callable": "a.module:function", **fields})
    workflows.register(connection, definition)
    connection.commit()


def claim(connection: Connection, source: Source, limit: int = 100) -> tuple[UUID, list[ClaimedRun]]:
    """Claim and start the available runs, for another worker."""
    workflow = workflows.find(connection, source.name)
    worker_id = add_worker(connection, workflow)
    claimed = claiming.claim(connection, workflow, limit=limit, worker_id=worker_id)
    lifecycle.start(connection, worker_id, [run.run_id for run in claimed])
    connection.commit()
    return worker_id, claimed


def work(connection: Connection, source: Source, state: FinalState = "success", **result: Any) -> list[ClaimedRun]:
    """Process all runs that wait; each one ends so."""
    worker_id, claimed = claim(connection, source)
    results = [RunResult(run_id=run.run_id, state=state, **result) for run in claimed]
    lifecycle.finish(connection, worker_id, results)
    connection.commit()
    return claimed


def states(connection: Connection, source: Source) -> list[str]:
    """Return the states of a source's work orders, oldest first."""
    return [order.state for order in work_orders(connection, source)]
