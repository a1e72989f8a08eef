"""Cancels waiting runs: the work order ends as cancelled, and a run contains the actor and the reason."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from workorders.core.bulk.jobs import IN_USE, StepResult, lock_work_orders
from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.bulk", "sql/cancel.sql")


def cancel_work_orders(connection: Connection, ids: Sequence[UUID], *, actor: str, reason: str) -> StepResult:
    """Cancel the waiting runs of these work orders, in the caller's transaction; skip the others."""
    states = {id_: state for id_, (_, state, _) in lock_work_orders(connection, ids).items()}
    unclaimed = [id_ for id_, state in states.items() if state == "pending"]
    requeued = [id_ for id_, state in states.items() if state == "requeued"]
    available = [row[0] for row in connection.execute(_QUERIES["lock_available"], {"ids": requeued})]
    names = {"actor": actor, "reason": reason}
    connection.execute(_QUERIES["cancel_available"], {"ids": available, **names})
    connection.execute(_QUERIES["cancel_unclaimed"], {"run_ids": run_ids(len(unclaimed)), "ids": unclaimed, **names})
    connection.execute(_QUERIES["cancel_work_orders"], {"ids": [*available, *unclaimed]})
    cancelled = len(available) + len(unclaimed)
    skipped = Counter({IN_USE: len(ids) - len(states), "not waiting": len(states) - cancelled})
    return StepResult(cancelled, +skipped)
