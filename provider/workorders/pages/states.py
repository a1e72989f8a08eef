"""The one word that stands for a Kafka trigger, or for the work of a workflow; and which problem comes first. Pure."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from workorders import dag_ids
from workorders.core.history.workload import Workload
from workorders.kafka.partitions import PartitionState
from workorders.kafka.status import TRIGGER_TYPE, PartitionRow, TriggerStatus
from workorders.monitoring.problems import NOT_RUNNING, STALLED, Problem, Subject
from workorders.pages.rendering import tone

PAUSED: Final = "paused"
MAX_SHOWN: Final = 50
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
_HELP: Final = {
    Subject.TRIGGER: ((TRIGGER_TYPE,), "Look at the trigger"),
    Subject.WORKFLOW: (("workflows",), "Look at the workflow"),
    Subject.SHARD: (("outbox",), "Look at the outbox"),
    Subject.HOLD: (("outbox", "holds"), "Release or purge"),
    Subject.JOB: (("bulk",), "See the operation"),
}


def word_of_trigger(status: TriggerStatus, *, is_paused: bool) -> str:
    """Return the worst state of a trigger's partitions; `paused` if its listener is paused and nothing is wrong."""
    states = [row.state for row in status.partitions]
    worst = min(states, key=lambda state: state.rank, default=PartitionState.NOT_PLANNED)
    return PAUSED if is_paused and not worst.needs_attention else worst


def lag_of(status: TriggerStatus) -> int | None:
    """Return the sum of the known lags of a trigger's partitions; None if none is known."""
    lags = [row.lag for row in status.partitions if row.lag is not None]
    return sum(lags) if lags else None


def stopped_listeners(triggers: Collection[str], paused: Mapping[str, bool]) -> set[str]:
    """Return the triggers whose listener is paused, or has no Dag with the usual name: a retired trigger has none."""
    return {name for name in triggers if paused.get(dag_ids.listener(name), True)}


def severity(word: str) -> int:
    """Return the place of a trigger's word in a list: the worst first."""
    return len(PartitionState) if word == PAUSED else PartitionState(word).rank


def rank(row: PartitionRow) -> tuple[int, int, str, int]:
    """Return the place of a partition in a list: the worst first, then the greatest lag."""
    return row.state.rank, -(row.lag or 0), row.topic, row.partition


def word_of_workflow(work: Workload, *, is_stuck: bool, is_paused: bool) -> str:
    """Return what a workflow does."""
    if is_stuck:
        return NOT_RUNNING
    if is_paused:
        return PAUSED
    if work.running:
        return "running"
    return "waiting" if work.waiting else "idle"


def urgency(problem: Problem) -> tuple[bool, datetime]:
    """Return the place of a problem among others: what is worst, and then what has lasted longest."""
    return tone(problem.state) != "bad", problem.since or _ALWAYS


def page_of(problem: Problem) -> tuple[str, ...]:
    """Return the parts of the path of the page that helps."""
    folder, _ = _HELP[problem.about]
    return folder if problem.about is Subject.SHARD else (*folder, problem.key)


def button_of(problem: Problem) -> str:
    """Return what a person does there."""
    if problem.state == STALLED:
        return "See why"
    if any(state == problem.state and state.is_contradiction for state in PartitionState):
        return "Decide"
    return _HELP[problem.about][1]
