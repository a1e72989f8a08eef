from datetime import UTC, datetime
from uuid import uuid4

import pytest

from workorders.core.history.runs import Step, describe_end

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def step(name: str) -> Step:
    return Step(name, 1, uuid4(), 1, NOON, False, "17", 2)


@pytest.mark.parametrize("state", ["lost", "crashed", "killed"])
def test_a_run_that_ended_at_an_unknown_point_says_where_a_rerun_continues(state: str) -> None:
    sentences = describe_end(state, [step("label"), step("ship")])
    assert sentences == (
        f"2 steps were finished when this run ended as {state}; the last one is ship. A retry or a rerun continues "
        "there: it gets their results, and does not execute them again. A step that was being executed is executed "
        "again. A transaction that committed just before the end may be missing here; it is not executed again, "
        "because its own database knows it."
    )


def test_a_run_that_was_lost_before_its_first_step_says_that_its_function_is_called_from_its_start() -> None:
    sentences = describe_end("lost", [])
    assert sentences is not None
    assert sentences.startswith(
        "No finished step was recorded before this run ended as lost. A retry or a rerun begins at the start. A "
        "transaction that committed just before the end may be missing here; it is not executed again"
    )


@pytest.mark.parametrize("state", ["started", "success", "failed", "cancelled", "exception"])
def test_a_run_whose_end_is_known_or_to_come_says_nothing_about_its_steps(state: str) -> None:
    assert describe_end(state, [step("label")]) is None
