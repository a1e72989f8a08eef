"""What a bulk operation does to work orders: it gives them another run, or cancels the one that waits."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from workorders.core.admission import limits
from workorders.core.attribution import Attribution
from workorders.core.bulk import revalidation
from workorders.core.bulk.jobs import IN_USE, StepResult, lock_work_orders
from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.states import UNFINISHED

_QUERIES = load_queries("workorders.core.bulk", "sql/changes.sql")


def rerun_work_orders(
    connection: Connection, ids: Sequence[UUID], by: Attribution, *, from_start: bool = False
) -> StepResult:
    """Give each work order a new waiting run, before all others, in the caller's transaction.

    The run continues: it gets the results of the steps that are stored. It begins a new generation, in which every step
    is executed again, if that is requested or the work order has succeeded.

    A work order has at most one unfinished run, so one that waits or runs is skipped. One whose input was erased cannot
    run again. A rejected one is first validated again by the trigger's present definition. If it still is no input, it
    stays rejected, with its present reason. Limits of a workflow count reruns, and neither reject nor delay them.
    """
    limited = limits.lock_counts(connection, ids)
    found = lock_work_orders(connection, ids)
    skipped = Counter({IN_USE: len(ids) - len(found)})
    ended: dict[UUID, int] = {}
    rejected: list[UUID] = []
    for id_, (workflow_id, state, has_input) in found.items():
        if state in UNFINISHED:
            skipped["not finished"] += 1
        elif not has_input:
            skipped["erased"] += 1
        elif state == "rejected":
            rejected.append(id_)
        else:
            ended[id_] = workflow_id
    accepted = revalidation.revalidate_rejected(connection, rejected) if rejected else []
    skipped["still rejected or parked"] = len(rejected) - len(accepted)
    for workflow_id, number in Counter(ended.values()).items():
        if workflow_id in limited:
            limits.count(connection, workflow_id, number)
    if again := sorted([*ended, *accepted]):
        requested = {"actor": by.actor, "reason": by.reason, "from_start": from_start}
        connection.execute(_QUERIES["rerun"], {"run_ids": run_ids(len(again)), "ids": again, **requested})
    return StepResult(len(again), +skipped)


def cancel_work_orders(connection: Connection, ids: Sequence[UUID], by: Attribution) -> StepResult:
    """Cancel the waiting runs of these work orders, in the caller's transaction; skip the others."""
    states = {id_: state for id_, (_, state, _) in lock_work_orders(connection, ids).items()}
    unclaimed = [id_ for id_, state in states.items() if state == "pending"]
    requeued = [id_ for id_, state in states.items() if state == "requeued"]
    given = {"unclaimed": unclaimed, "run_ids": run_ids(len(unclaimed)), "requeued": requeued}
    cancelled = connection.execute(_QUERIES["cancel"], {**given, "actor": by.actor, "reason": by.reason}).rowcount
    skipped = Counter({IN_USE: len(ids) - len(states), "not waiting": len(states) - cancelled})
    return StepResult(cancelled, +skipped)
