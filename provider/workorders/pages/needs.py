"""What needs a person: which problem comes first on the overview, and the page that helps with each. Pure."""

from datetime import UTC, datetime
from typing import Final

from workorders.kafka.partitions import PartitionState
from workorders.kafka.status.partition_status import TRIGGER_TYPE
from workorders.monitoring.problems import STALLED, Problem, Subject
from workorders.pages.rendering import tone

MAX_SHOWN: Final = 50
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
_HELP: Final = {
    Subject.TRIGGER: ((TRIGGER_TYPE,), "Look at the trigger"),
    Subject.WORKFLOW: (("workflows",), "Look at the workflow"),
    Subject.SHARD: (("outbox",), "Look at the outbox"),
    Subject.HOLD: (("outbox", "holds"), "Release or purge"),
    Subject.JOB: (("bulk",), "See the operation"),
}


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
