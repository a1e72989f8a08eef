"""The work orders that a search selects: whose rights decide about them, and how many they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fastapi import HTTPException

from workorders import dag_ids
from workorders.core.bulk import jobs
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.states import UNFINISHED, WAITING
from workorders.core.workflows import list_names
from workorders.pages.access import Right, Viewer

Kind = Literal["rerun", "cancel", "export"]


@dataclass(frozen=True, slots=True)
class Counted:
    """What a rerun, a cancel, or an export would find."""

    kind: Kind
    states: Mapping[str, int]
    """Work orders by state."""
    without_input: int
    """For a rerun, those that have ended and whose input was erased."""

    @property
    def total(self) -> int:
        """Return how many work orders were selected."""
        return sum(self.states.values())

    @property
    def skipped(self) -> Mapping[str, int]:
        """Return how many stay as they are, by the reason."""
        waiting = sum(self.states.get(state, 0) for state in WAITING)
        unfinished = sum(self.states.get(state, 0) for state in UNFINISHED)
        reasons: Mapping[Kind, Mapping[str, int]] = {
            "rerun": {
                "they wait, run, or are parked already": unfinished,
                "retention has erased their input": self.without_input,
            },
            "cancel": {"only a work order that waits can be cancelled": self.total - waiting},
            "export": {},
        }
        return {reason: number for reason, number in reasons[self.kind].items() if number}

    @property
    def may_continue(self) -> bool:
        """Return whether a rerun can continue some of them, because they have not succeeded."""
        return not self.states.keys() <= UNFINISHED | {"success"}

    @property
    def may_start_over(self) -> bool:
        """Return whether some of them have had a run, so that a rerun from the start differs."""
        return not self.states.keys() <= UNFINISHED | {"rejected"}

    @property
    def left(self) -> int:
        """Return how many are rerun, cancelled, or exported, if it is known."""
        return self.total - sum(self.skipped.values())


def count(connection: Connection, wanted: Filter, kind: Kind) -> Counted:
    """Return what a selection has."""
    erased = work_orders.count_without_input(connection, wanted) if kind == "rerun" else 0
    return Counted(kind, jobs.count_matching(connection, wanted), erased)


def rights_to(right: Right, wanted: Filter) -> Sequence[Right]:
    """Return what it takes to act on a search: one by words or by an ordering key answers what inputs contain."""
    asks_inputs = wanted.text is not None or wanted.ordering_key is not None
    return (right, Right.READ_INPUT) if asks_inputs else (right,)


def require_right(connection: Connection, viewer: Viewer, right: Right, wanted: Filter) -> list[str]:
    """Refuse a user without the right to all that a filter may select; return the Dags that were asked about."""
    workflows = workflows_of(connection, wanted, list_names(connection))
    if wanted.selected is not None and not workflows:
        raise HTTPException(404, "The work orders that were selected do not exist any more. Nothing was changed.")
    dags = [dag_ids.of_workflow(workflow) for workflow in workflows]
    for needed in rights_to(right, wanted):
        viewer.require(needed, *dags)
    return dags


def workflows_of(connection: Connection, wanted: Filter, workflows: Sequence[str]) -> Sequence[str]:
    """Return the workflows, of all there are, whose work orders a filter may select.

    A trigger does not limit them: its work orders keep the workflow that it had when they were created.
    """
    if wanted.workflow is not None:
        return [wanted.workflow]
    if wanted.selected is not None:
        return work_orders.list_workflows_of(connection, wanted.selected)
    return workflows
