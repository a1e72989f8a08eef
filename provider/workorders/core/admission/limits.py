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
_WAITING: Final = "work orders that wait"
_TODAY: Final = "new runs today (UTC)"


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
        self._usage: list[LimitUsage] = []

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
            self._usage = read_usage(state.connection, workflow_id, self._settings, own=state.with_input)
            if not state.by_person:
                state.capacity = remaining(self._usage)

    def write(self, state: AdmissionState) -> None:
        """Add what is admitted to the count."""
        if not self._usage:
            return
        beyond = sum(part.code == RUN_LIMIT for part in state.rejections)
        if beyond and self._settings.waits:
            raise limit_error(state.trigger, self._usage, state.admitted + beyond)
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
    return [] if rule is None else read_usage(connection, workflow.id, rule)


def require_capacity(connection: Connection, trigger: Trigger) -> None:
    """Check without a lock, before any work, that the workflow of the trigger takes at least one more work order."""
    rule = LimitSettings.of(trigger)
    if rule is not None and rule.waits:
        usage = read_usage(connection, trigger.workflow_id, rule)
        if remaining(usage) == 0:
            raise limit_error(trigger, usage, 1)


def count(connection: Connection, workflow_id: int, admitted: int) -> None:
    """Add to the count of the day; the caller holds the lock."""
    connection.execute(_QUERIES["add"], {"workflow_id": workflow_id, "admitted": admitted})


def remaining(usage: Iterable[LimitUsage]) -> int:
    """Return how many more work orders all limits allow."""
    return max(0, min(part.limit - part.used for part in usage))


def limit_error(trigger: Trigger, usage: Iterable[LimitUsage], wanted: int) -> LimitReachedError:
    """Return the error about the reached limit, and what helps."""
    reached = min(usage, key=lambda part: part.limit - part.used)
    relief = "runs finish" if reached.counted == _WAITING else "a new day begins"
    what_helps = (
        "this number is never admitted; raise the limit or make the batches smaller"
        if wanted > reached.limit
        else f"it continues by itself when {relief}, or when the limit is raised"
    )
    return LimitReachedError(
        f"Workflow {trigger.workflow} has capacity for {remaining([reached])} more work orders and {wanted} came at "
        f"once: its limit is {reached.limit} {reached.counted}. Nothing was created for trigger {trigger.name}; "
        f"{what_helps}."
    )


def read_usage(connection: Connection, workflow_id: int, rule: LimitSettings, *, own: int = 0) -> list[LimitUsage]:
    """Return how much of each limit is used; locks nothing.

    `own` work orders of the caller are written; they are among those that wait, and use no capacity yet.
    """
    most = 0 if rule.waiting is None else rule.waiting + own
    today, waiting = fetch_row(connection, _QUERIES["used"], {"workflow_id": workflow_id, "max_waiting": most})
    on_reached = "wait" if rule.waits else "reject"
    found = ((_WAITING, rule.waiting, waiting - own), (_TODAY, rule.per_day, today))
    return [LimitUsage(counted, limit, used, on_reached) for counted, limit, used in found if limit is not None]
