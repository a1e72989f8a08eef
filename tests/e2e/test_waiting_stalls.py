"""A persistent stall waits without a worker: its task is deferred, shows its error, and continues by itself.

This module follows the others, during which the stalled batch of `test_stalls.py` has made its first tries.
"""

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import Run, Task
from support.command_on_stack import typed
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import Place

TRIES = 7
LOST = "were deleted by retention before they were read"


@pytest.fixture(scope="module")
def waiting(stalls: Flow, stalled: Run) -> Task:
    """The task of the stalled batch, once it is deferred."""

    def deferred() -> Task | None:
        task = stalls.create(stalled)
        return task if task.state == "deferred" else None

    task = eventually(deferred, seconds=SECONDS, what=f"a deferred {stalled.id}")
    assert task is not None
    return task


def test_the_task_is_deferred_after_the_tries_of_two_minutes(stalls: Flow, waiting: Task) -> None:
    assert waiting.try_number == TRIES
    failed = stalls.api.tries(waiting)
    assert sorted(number for number in failed if number < TRIES) == list(range(1, TRIES))


def test_the_log_of_the_deferred_task_ends_with_the_error(stalls: Flow, waiting: Task) -> None:
    def ends_with_the_error() -> bool:
        lines = [line for line in stalls.api.log(waiting, TRIES) if line["event"].strip()]
        texts = [line["event"] for line in lines]
        begun = [number for number, text in enumerate(texts) if text.startswith("Waiting for the next try of batch")]
        if not begun:
            return False
        error = " ".join(texts[begun[-1] + 1 :])
        # While the task goes through one more try, its log ends with the lines of its begin: look again.
        levels = {line["level"] for line in lines[begun[-1] + 1 :]}
        return levels == {"error"} and LOST in error and error.endswith("Next try in 60 s.")

    eventually(ends_with_the_error, seconds=SECONDS, what="the error at the end of the log")


def test_a_decision_ends_the_deferred_task(
    airflow_stack: LocalStack, stalls: Flow, stalled: Run, waiting: Task, half_lost: list[Place]
) -> None:
    command = ("resolve", "skip-lost", "stalls", "e2e.stalls", "--reason", "retention was short", "--yes")
    # A decision is refused for a moment while a try of the stalled batch takes the partition.
    eventually(lambda: typed(airflow_stack, *command).returncode == 0, seconds=SECONDS, what="a decision")
    stalls.until_settled()
    task = stalls.create(stalled)
    assert (task.state, task.try_number) == ("success", TRIES)
    assert "was superseded by decision" in stalls.api.log_text(task)
