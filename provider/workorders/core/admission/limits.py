"""How many work orders a workflow takes: counted exactly, under the lock of a row that only limited workflows have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple
from uuid import UUID

from workorders.core.admission.rules import AdmissionState, Rule
from workorders.core.exceptions import LimitReachedError
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

if TYPE_CHECKING:  # what creates work orders needs no model
    from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.admission", "sql/limits.sql")

RUN_LIMIT: Final = "run-limit"


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """How many work orders a workflow takes."""

    waiting: int | None
    """Maximum number of work orders that wait for a run."""
    per_day: int | None
    """Maximum number of work orders admitted per day (UTC)."""
    waits: bool
    """Whether the source waits at a limit; otherwise work orders beyond it are rejected."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "LimitSettings | None":
        """Return the limits of a stored definition; None if it has none."""
        waiting, per_day = stored.get("max_waiting"), stored.get("max_per_day")
        if waiting is None and per_day is None:
            return None
        return cls(waiting, per_day, stored.get("on_reached") == "wait")

    @classmethod
    def of(cls, trigger: Trigger) -> "LimitSettings | None":
        """Return the limits of the trigger's workflow; None if it has none."""
        return cls.read(trigger.workflow_definition.get("limits", {}))


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many more work orders a workflow takes by each limit; None for a limit that it does not have."""

    waiting: int | None
    today: int | None

    @property
    def remaining(self) -> int | None:
        """How many work orders may be added; None for no limit."""
        capacities = [capacity for capacity in (self.waiting, self.today) if capacity is not None]
        return max(0, min(capacities)) if capacities else None


class LimitUsage(NamedTuple):
    """How much of a limit is used."""

    counted: str
    limit: int
    used: int
    """More than the limit if reruns were admitted beyond it."""
    on_reached: str
    """What happens at the limit, in the word of a workflow's file."""


class LimitRule(Rule):
    """Counts work orders under the lock of their workflow. `SequenceRule` spends the capacity, in the right order."""

    reasons: ClassVar = (RUN_LIMIT,)

    def __init__(self, settings: LimitSettings) -> None:
        super().__init__()
        self._settings = settings
        self._capacity: Capacity | None = None

    @classmethod
    def of(cls, trigger: Trigger) -> Iterable["LimitRule"]:
        """Return the rule if the workflow has limits."""
        settings = LimitSettings.of(trigger)
        return () if settings is None else (cls(settings),)

    def decide(self, state: AdmissionState) -> None:
        """Lock the count of the workflow, and read its capacity."""
        if state.with_input:
            workflow_id = state.trigger.workflow_id
            lock_count(state.connection, workflow_id)
            self._capacity = peek(state.connection, workflow_id, self._settings, own=state.with_input)
            if not state.by_person:
                state.capacity = self._capacity.remaining

    def write(self, state: AdmissionState) -> None:
        """Add what is admitted to the count."""
        if self._capacity is None:
            return
        beyond = sum(part.code == RUN_LIMIT for part in state.rejections)
        if beyond and self._settings.waits:
            raise limit_error(state.trigger, self._settings, self._capacity, state.admitted + beyond)
        count(state.connection, state.trigger.workflow_id, state.admitted + state.released)


def lock_count(connection: Connection, workflow_id: int) -> None:
    """Lock the count of the workflow until the caller's transaction ends."""
    connection.execute(_QUERIES["lock_count"], {"workflow_id": workflow_id})


def lock_counts(connection: Connection, work_order_ids: Sequence[UUID]) -> set[int]:
    """Lock the counts of the workflows with limits among some work orders, and return the ids of these workflows.

    In the order of these ids, and before any work order is locked, as in all other transactions.
    """
    limited = [id_ for (id_,) in connection.execute(_QUERIES["limited"], {"ids": list(work_order_ids)})]
    for workflow_id in limited:
        lock_count(connection, workflow_id)
    return set(limited)


def list_usage(connection: Connection, workflow: "Workflow") -> list[LimitUsage]:
    """Return how much of each limit of a workflow is used; locks nothing."""
    rule = LimitSettings.read(workflow.definition.limits.model_dump()) if workflow.definition else None
    if rule is None:
        return []
    left, on_reached = peek(connection, workflow.id, rule), "wait" if rule.waits else "reject"
    found = []
    if rule.waiting is not None and left.waiting is not None:
        found.append(LimitUsage("work orders that wait", rule.waiting, rule.waiting - left.waiting, on_reached))
    if rule.per_day is not None and left.today is not None:
        found.append(LimitUsage("new runs today (UTC)", rule.per_day, rule.per_day - left.today, on_reached))
    return found


def require_capacity(connection: Connection, trigger: Trigger) -> None:
    """Check without a lock, before any work, that the workflow of the trigger takes at least one more work order."""
    rule = LimitSettings.of(trigger)
    if rule is not None and rule.waits:
        capacity = peek(connection, trigger.workflow_id, rule)
        if capacity.remaining == 0:
            raise limit_error(trigger, rule, capacity, 1)


def count(connection: Connection, workflow_id: int, admitted: int) -> None:
    """Add to the count of the day; the caller holds the lock."""
    connection.execute(_QUERIES["add"], {"workflow_id": workflow_id, "admitted": admitted})


def limit_error(trigger: Trigger, settings: LimitSettings, capacity: Capacity, wanted: int) -> LimitReachedError:
    """Return the error about the reached limit, and what helps."""
    limit, counted, relief = settings.waiting, "waiting", "runs finish"
    if capacity.today is not None and (capacity.waiting is None or capacity.today < capacity.waiting):
        limit, counted, relief = settings.per_day, "runs per day (UTC)", "a new day begins"
    what_helps = (
        "this number is never admitted; raise the limit or make the batches smaller"
        if limit is not None and wanted > limit
        else f"it continues by itself when {relief}, or when the limit is raised"
    )
    return LimitReachedError(
        f"Workflow {trigger.workflow} has capacity for {capacity.remaining} more work orders and {wanted} came at "
        f"once: its limit is {limit} {counted}. Nothing was created for trigger {trigger.name}; {what_helps}."
    )


def peek(connection: Connection, workflow_id: int, rule: LimitSettings, *, own: int = 0) -> Capacity:
    """Return the capacity; locks nothing.

    `own` work orders of the caller are written; they are among those that wait, and use no capacity yet.
    """
    most = 0 if rule.waiting is None else rule.waiting + own
    today, waiting = fetch_row(connection, _QUERIES["used"], {"workflow_id": workflow_id, "max_waiting": most})
    return Capacity(
        None if rule.waiting is None else most - waiting, None if rule.per_day is None else rule.per_day - today
    )
