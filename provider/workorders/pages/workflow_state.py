"""The one word that stands for the work of a workflow: a pure function."""

from workorders.core.history.workload import Workload
from workorders.monitoring.problems import NOT_RUNNING
from workorders.pages.kafka_state import PAUSED


def word_of(work: Workload, *, is_stuck: bool, is_paused: bool) -> str:
    """Return what a workflow does.

    Args:
        work: its work now.
        is_stuck: whether `find_idle` has found it: work orders are due, and none runs.
        is_paused: whether the Dag of its runs is paused.

    Returns:
        `not running` if it is stuck, and otherwise `paused`, `running`, `waiting` for a run, or `idle`.
    """
    if is_stuck:
        return NOT_RUNNING
    if is_paused:
        return PAUSED
    if work.running:
        return "running"
    return "waiting" if work.waiting else "idle"
