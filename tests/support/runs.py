"""Takes work orders through their states as a worker does."""

from uuid import uuid4

from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, RunResult


def claim(connection: Connection, workflow: str, limit: int = 100) -> list[ClaimedRun]:
    """Claim runs of a workflow for a worker of their own, and commit."""
    claimed = claiming.claim(connection, workflows.find(connection, workflow), limit=limit, worker_id=uuid4())
    connection.commit()
    return claimed


def finish_all(connection: Connection, workflow: str, state: FinalState = "success") -> list[ClaimedRun]:
    """Claim every run that can be claimed, and end each in that state, with an output and a log."""
    worker_id = uuid4()
    claimed = claiming.claim(connection, workflows.find(connection, workflow), limit=10_000, worker_id=worker_id)
    results = [RunResult(run_id=run.run_id, state=state, output=b'{"done":1}', log="a line") for run in claimed]
    lifecycle.finish(connection, worker_id, results)
    connection.commit()
    return claimed


def keeping(connection: Connection, workflow: str, **days: int) -> None:
    """Give a workflow a retention, and commit."""
    workflows.register(
        connection,
        WorkflowDefinition.model_validate({"name": workflow, "callable": "json:dumps", "retention": days}),
    )
    connection.commit()
