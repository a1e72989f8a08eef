"""A workflow's `concurrency`: how many of its runs are at work at once, in all workers together."""

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/concurrency.sql")


def lock_capacity(connection: Connection, workflow: Workflow, limit: int) -> int:
    """Return how many runs, `limit` at most, may be claimed; block other claims of the workflow in this transaction."""
    concurrency, _ = fetch_row(connection, _QUERIES["lock_workflow"], {"workflow_id": workflow.id})
    if concurrency is None:
        return limit
    asked = {"workflow_id": workflow.id, "concurrency": concurrency}
    # A separate statement: only that one sees what was committed while the lock was awaited.
    (at_work,) = fetch_row(connection, _QUERIES["count_at_work"], asked)
    return min(limit, int(concurrency - at_work))
