"""Reruns: one more run of the same work order, asked for by a person."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from workorders.core import rejudging
from workorders.core.database import Connection
from workorders.core.ids import run_ids
from workorders.core.jobs import IN_USE, Job, Outcome
from workorders.core.queries import load_queries

_QUERIES = load_queries("workorders.core", "sql/reruns.sql")

_UNFINISHED = frozenset({"pending", "running", "parked"})


class Reruns:
    """The work of a rerun job."""

    def begin(self, connection: Connection, job: Job, worker: UUID) -> None:
        """Nothing to make ready."""

    def step(self, connection: Connection, job: Job, ids: Sequence[UUID]) -> Outcome:
        """Give those of the work orders a new run that can have one."""
        return rerun(connection, ids, who=job.who, why=job.why)

    def finish(self) -> None:
        """Nothing to complete."""

    def abandon(self) -> None:
        """Nothing is left half done: a step is a transaction."""


def rerun(connection: Connection, ids: Sequence[UUID], *, who: str, why: str) -> Outcome:
    """Give each work order a new run that waits, before all others, in the caller's transaction.

    A work order has at most one unfinished run, so one that waits or runs is skipped. One whose input was wiped cannot
    run again. A rejected one is judged again first, by the trigger's definition of now; if it still is no input, it
    stays rejected, with the reason that it has now.
    """
    skipped: Counter[str] = Counter()
    again: list[UUID] = []
    rejected: list[UUID] = []
    found = connection.execute(_QUERIES["lock"], {"ids": list(ids)}).fetchall()
    skipped[IN_USE] = len(ids) - len(found)
    for id_, state, has_input in found:
        if state in _UNFINISHED:
            skipped["not finished"] += 1
        elif not has_input:
            skipped["wiped"] += 1
        elif state == "rejected":
            rejected.append(id_)
        else:
            again.append(id_)
    if rejected:
        accepted = rejudging.accept(connection, rejected)
        skipped["still rejected or parked"] = len(rejected) - len(accepted)
        again = sorted([*again, *accepted])
    if again:
        arguments = {"run_ids": run_ids(len(again)), "ids": again, "who": who, "why": why}
        connection.execute(_QUERIES["rerun"], arguments)
    return Outcome(len(again), {reason: count for reason, count in skipped.items() if count})
