"""Takes work orders through their states as a worker does."""

from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, RunResult
from workorders.core.workers import add_worker


def claim(connection: Connection, workflow: str, limit: int = 100) -> list[ClaimedRun]:
    """Claim runs of a workflow for a new worker, and commit."""
    found = workflows.find(connection, workflow)
    claimed = claiming.claim(connection, found, limit=limit, worker_id=add_worker(connection, found))
    connection.commit()
    return claimed


def finish_all(connection: Connection, workflow: str, state: FinalState = "success") -> list[ClaimedRun]:
    """Claim every run that can be claimed, and end each in that state, with an output and a log."""
    found = workflows.find(connection, workflow)
    worker_id = add_worker(connection, found)
    claimed = claiming.claim(connection, found, limit=10_000, worker_id=worker_id)
    results = [RunResult(run_id=run.run_id, state=state, output=b'{"done":1}', log="a line") for run in claimed]
    lifecycle.finish(connection, worker_id, results)
    connection.commit()
    return claimed


def keeping(connection: Connection, workflow: str, **ages: str) -> None:
    """Give a workflow a retention, and commit."""
    workflows.register(
        connection,
        WorkflowDefinition.model_validate({"name": workflow, "callable": "json:dumps", "retention": ages}),
    )
    connection.commit()
