"""Returns the capacity that the limits of workflows leave for a person who requests many runs at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from workorders.core.admission import limits
from workorders.core.admission.limits import Capacity, LimitSettings
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.admission", "sql/limits.sql")


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """A limit, and what it leaves."""

    counted: str
    limit: int | None
    """None if there is no such limit."""
    left: int | None

    @property
    def used(self) -> int:
        """Return how much is used; more than the limit if reruns were admitted beyond it."""
        return (self.limit or 0) - (self.left or 0)


@dataclass(frozen=True, slots=True)
class WorkflowCapacity:
    """A workflow that has limits, and its capacity now."""

    workflow_id: int
    workflow: str
    rule: LimitSettings
    capacity: Capacity

    @property
    def usage(self) -> Sequence["LimitUsage"]:
        """Return how much of each limit is used."""
        found = [
            LimitUsage("work orders that wait", self.rule.waiting, self.capacity.waiting),
            LimitUsage("new runs today (UTC)", self.rule.per_day, self.capacity.today),
        ]
        return [usage for usage in found if usage.limit is not None]

    @property
    def fullness(self) -> str:
        """One sentence: which limit is reached, and what helps."""
        limit, counted, relief, _ = self.capacity.binding(self.rule)
        return (
            f"Workflow {self.workflow} takes no more runs now: its limit is {limit} {counted}. It "
            f"takes more when {relief}, or when the limit is raised."
        )

    def __str__(self) -> str:
        """Return the capacity in a sentence."""
        limits_now = {"waiting": self.rule.waiting, "a day (UTC)": self.rule.per_day}
        limited = " and ".join(f"{number:,} {what}" for what, number in limits_now.items() if number is not None)
        return (
            f"Workflow {self.workflow} takes {self.capacity.remaining or 0:,} more runs now, by its "
            f"limits of {limited}; a rerun of more does as many and then waits for capacity."
        )


def capacity_for(connection: Connection, wanted: Filter) -> list[WorkflowCapacity]:
    """Return the workflows with limits that a filter names, or all if it names none; locks nothing."""
    ids = None if wanted.selected is None else list(wanted.selected)
    arguments = {"ids": ids, "trigger": wanted.trigger, "workflow": wanted.workflow}
    return [
        WorkflowCapacity(id_, name, rule, limits.peek(connection, id_, rule))
        for id_, name, rule in _limited(connection, arguments)
    ]


def lock_capacity(connection: Connection, ids: Sequence[UUID]) -> dict[int, WorkflowCapacity]:
    """Lock the count of every workflow with limits among these work orders, and return the capacities.

    In the order of the workflows' ids, and before any work order is locked, as in all other transactions.
    """
    arguments = {"ids": list(ids), "trigger": None, "workflow": None}
    return {
        id_: WorkflowCapacity(id_, name, rule, limits.lock(connection, id_, rule, own=0))
        for id_, name, rule in _limited(connection, arguments)
    }


def _limited(connection: Connection, arguments: Mapping[str, object]) -> list[tuple[int, str, LimitSettings]]:
    found = connection.execute(_QUERIES["limited"], arguments).fetchall()
    return [(id_, name, rule) for id_, name, stored in found if (rule := LimitSettings.read(stored)) is not None]
