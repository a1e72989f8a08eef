"""The word for the state of a workflow."""

import pytest

from workorders.core.history.workload import Workload
from workorders.pages.rendering import tone
from workorders.pages.states import word_of_workflow


def work(*, running: int = 0, waiting: int = 0) -> Workload:
    return Workload(
        "ship",
        concurrency=None,
        running=running,
        pending=0,
        requeued=waiting,
        oldest_waiting_at=None,
        parked=0,
        failed=0,
    )


@pytest.mark.parametrize(
    ("found", "is_stuck", "is_paused", "word", "color"),
    [
        (work(), False, False, "idle", "idle"),
        (work(waiting=3), False, False, "waiting", "idle"),
        (work(running=1, waiting=3), False, False, "running", "busy"),
        (work(running=1, waiting=3), False, True, "paused", "warn"),
        (work(), False, True, "paused", "warn"),
        (work(waiting=3), True, False, "not running", "bad"),
        (work(waiting=3), True, True, "not running", "bad"),
    ],
)
def test_the_word_is_that_of_the_worst_that_is_true_of_a_workflow(
    found: Workload, *, is_stuck: bool, is_paused: bool, word: str, color: str
) -> None:
    assert word_of_workflow(found, is_stuck=is_stuck, is_paused=is_paused) == word
    assert tone(word) == color
