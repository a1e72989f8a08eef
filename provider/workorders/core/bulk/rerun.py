"""Reruns: creates one more run of the same work order at the request of a person."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from workorders.core.admission import limits
from workorders.core.bulk import capacity, revalidation
from workorders.core.bulk.capacity import WorkflowCapacity
from workorders.core.bulk.jobs import IN_USE, StepResult, lock_work_orders
from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.states import UNFINISHED

_QUERIES = load_queries("workorders.core.bulk", "sql/rerun.sql")


def rerun_work_orders(
    connection: Connection,
    ids: Sequence[UUID],
    *,
    actor: str,
    reason: str,
    from_start: bool = False,
    alone: bool = False,
) -> StepResult:
    """Give each work order a new waiting run, before all others, in the caller's transaction.

    The run continues: it gets the results of the steps that are stored. It begins a new generation, in which every step
    is executed again, if that is requested or the work order has succeeded.

    A work order has at most one unfinished run, so one that waits or runs is skipped. One whose input was erased cannot
    run again. A rejected one is first validated again by the trigger's present definition. If it still is no input, it
    stays rejected, with its present reason. The step ends at the first one for which its workflow has no capacity; if a
    person has requested this one alone, a limit that rejects counts it, but does not delay it.
    """
    capacities = capacity.lock_capacity(connection, ids)
    chosen = _choose(connection, ids, {id_: at for id_, at in capacities.items() if at.rule.waits or not alone})
    again = [id_ for id_, _ in chosen.ended]
    if chosen.rejected:
        accepted = revalidation.revalidate_rejected(connection, chosen.rejected, beyond_limits=alone)
        chosen.skipped["still rejected or parked"] = len(chosen.rejected) - len(accepted)
        again = sorted([*again, *accepted])
    for workflow_id, number in Counter(workflow_id for _, workflow_id in chosen.ended).items():
        if workflow_id in capacities:
            limits.count(connection, workflow_id, number)
    if again:
        requested = {"actor": actor, "reason": reason, "from_start": from_start}
        connection.execute(_QUERIES["rerun"], {"run_ids": run_ids(len(again)), "ids": again, **requested})
    skipped = {reason: count for reason, count in chosen.skipped.items() if count}
    return StepResult(len(again), skipped, chosen.waits_for, chosen.reached)


@dataclass(slots=True)
class _Chosen:
    """The work orders of a step, by what it does with them."""

    ended: list[tuple[UUID, int]] = field(default_factory=list)
    """Ids of work orders and of their workflows."""
    rejected: list[UUID] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    waits_for: str | None = None
    reached: UUID | None = None


def _choose(connection: Connection, ids: Sequence[UUID], capacities: Mapping[int, WorkflowCapacity]) -> _Chosen:
    found = lock_work_orders(connection, ids)
    left = {workflow_id: at.capacity.remaining or 0 for workflow_id, at in capacities.items()}
    chosen = _Chosen()
    for id_ in ids:
        workflow_id, state, has_input = found.get(id_, (0, None, False))
        if state is None:
            chosen.skipped[IN_USE] += 1
        elif state in UNFINISHED:
            chosen.skipped["not finished"] += 1
        elif not has_input:
            chosen.skipped["erased"] += 1
        elif left.get(workflow_id, 1) == 0:
            # Whether a rejected one is accepted is known only after its validation, which needs capacity.
            chosen.waits_for = capacities[workflow_id].fullness
            return chosen
        else:
            if workflow_id in left:
                left[workflow_id] -= 1
            if state == "rejected":
                chosen.rejected.append(id_)
            else:
                chosen.ended.append((id_, workflow_id))
        chosen.reached = id_
    return chosen
