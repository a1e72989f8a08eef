"""Reruns: one more run of the same work order, asked for by a person."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from workorders.core.admission import limits
from workorders.core.bulk import capacity, revalidation
from workorders.core.bulk.capacity import WorkflowCapacity
from workorders.core.bulk.jobs import IN_USE, Job, StepResult, lock_work_orders
from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.bulk", "sql/rerun.sql")

_UNFINISHED = frozenset({"pending", "running", "parked"})


class RerunHandler:
    """The work of a rerun job."""

    sizes: str | None = "rejected_bytes"

    def begin(self, connection: Connection, job: Job, worker: UUID) -> None:
        """Nothing to make ready."""

    def step(self, connection: Connection, job: Job, ids: Sequence[UUID]) -> StepResult:
        """Give those of the work orders a new run that can have one."""
        return rerun_work_orders(connection, ids, actor=job.actor, reason=job.reason, alone=job.wanted.id is not None)

    def finish(self) -> None:
        """Nothing to complete."""

    def abandon(self) -> None:
        """Nothing is left half done: a step is a transaction."""


def rerun_work_orders(
    connection: Connection, ids: Sequence[UUID], *, actor: str, reason: str, alone: bool = False
) -> StepResult:
    """Give each work order a new run that waits, before all others, in the caller's transaction.

    A work order has at most one unfinished run, so one that waits or runs is skipped. One whose input was wiped cannot
    run again. A rejected one is judged again first, by the trigger's definition of now; if it still is no input, it
    stays rejected, with the reason that it has now. At the first one for which its workflow has no room, the step ends.

    Args:
        connection: in the caller's transaction, which has locked no work order yet.
        ids: in the order of their creation.
        actor: who asks for it.
        reason: the reason.
        alone: a person has asked for this one work order: a soft limit counts it, and does not hold it up.
    """
    rooms = capacity.lock_capacity(connection, ids)
    chosen = _choose(connection, ids, {id_: at for id_, at in rooms.items() if at.rule.hard or not alone})
    again = [id_ for id_, _ in chosen.ended]
    if chosen.rejected:
        accepted = revalidation.revalidate_rejected(connection, chosen.rejected, beyond_soft_limits=alone)
        chosen.skipped["still rejected or parked"] = len(chosen.rejected) - len(accepted)
        again = sorted([*again, *accepted])
    for workflow_id, number in Counter(workflow_id for _, workflow_id in chosen.ended).items():
        if workflow_id in rooms:
            limits.count(connection, workflow_id, number)
    if again:
        arguments = {"run_ids": run_ids(len(again)), "ids": again, "actor": actor, "reason": reason}
        connection.execute(_QUERIES["rerun"], arguments)
    skipped = {reason: count for reason, count in chosen.skipped.items() if count}
    return StepResult(len(again), skipped, chosen.waits_for, chosen.reached)


@dataclass(slots=True)
class _Chosen:
    """What a step comes to."""

    ended: list[tuple[UUID, int]] = field(default_factory=list)
    """Work orders and workflows."""
    rejected: list[UUID] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    waits_for: str | None = None
    reached: UUID | None = None


def _choose(connection: Connection, ids: Sequence[UUID], rooms: Mapping[int, WorkflowCapacity]) -> _Chosen:
    found = lock_work_orders(connection, ids)
    left = {workflow_id: at.room.remaining or 0 for workflow_id, at in rooms.items()}
    chosen = _Chosen()
    for id_ in ids:
        workflow_id, state, has_input = found.get(id_, (0, None, False))
        if state is None:
            chosen.skipped[IN_USE] += 1
        elif state in _UNFINISHED:
            chosen.skipped["not finished"] += 1
        elif not has_input:
            chosen.skipped["wiped"] += 1
        elif left.get(workflow_id, 1) == 0:
            # Whether a rejected one would be let in, nobody knows before it is judged, for which there must be room.
            chosen.waits_for = rooms[workflow_id].fullness
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
