"""What needs a person, as the overview shows it: each problem with the page that helps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from workorders.kafka.partitions import PartitionState
from workorders.kafka.status.partition_status import TRIGGER_TYPE
from workorders.monitoring.problems import STALLED, Problem, Subject
from workorders.pages.rendering import tone

_MAX_SHOWN: Final = 50
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
_PAGES: Final = {
    Subject.TRIGGER: (TRIGGER_TYPE,),
    Subject.WORKFLOW: ("workflows",),
    Subject.JOB: ("bulk",),
    Subject.HOLD: ("outbox", "holds"),
}


@dataclass(frozen=True, slots=True)
class Need:
    """A problem, and what a person does about it."""

    problem: Problem
    page: tuple[str, ...]
    """Parts of the path of the page that helps."""
    button: str
    """What the person does there."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What needs a person: what is worst first, and then what has lasted longest."""

    shown: Sequence[Need]
    """As many as fit on a page."""
    total: int
    """Number of all, with those that are not shown."""

    @property
    def hidden(self) -> int:
        """Return how many are not shown."""
        return self.total - len(self.shown)


def of(problems: Iterable[Problem]) -> Needs:
    """Return the worst and the oldest of the problems, and how many there are."""
    found = sorted(problems, key=lambda problem: (tone(problem.state) != "bad", problem.since or _ALWAYS))
    return Needs([Need(problem, _page(problem), _button(problem)) for problem in found[:_MAX_SHOWN]], len(found))


def _page(problem: Problem) -> tuple[str, ...]:
    if problem.about is Subject.SHARD:
        return ("outbox",)
    return (*_PAGES[problem.about], problem.key)


def _button(problem: Problem) -> str:
    if problem.state == STALLED:
        return "See why"
    if any(state == problem.state and state.is_contradiction for state in PartitionState):
        return "Decide"
    return _BUTTONS[problem.about]


_BUTTONS: Final = {
    Subject.TRIGGER: "Look at the trigger",
    Subject.WORKFLOW: "Look at the workflow",
    Subject.SHARD: "Look at the outbox",
    Subject.HOLD: "Release or purge",
    Subject.JOB: "See the operation",
}
