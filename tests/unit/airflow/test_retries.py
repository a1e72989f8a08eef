"""How long a failed task waits for its next try."""

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator, RetryAction

from support.tries import a_try
from workorders.airflow import retries
from workorders.airflow.retries import (
    UNLIMITED_RETRIES,
    UnlimitedRetryPolicy,
    describe_next_retry,
    is_long_stall,
    next_try_seconds,
    unlimited_retries,
)
from workorders.kafka.airflow.outbox_relay import HeldMessagesError

LARGEST_INTEGER = 2**31 - 1


@pytest.mark.parametrize(
    ("try_number", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (8, 60), (10_000, 60)]
)
def test_the_wait_doubles_up_to_a_minute(try_number: int, seconds: int) -> None:
    assert next_try_seconds(try_number, UNLIMITED_RETRIES) == seconds


@pytest.mark.parametrize(("failures_since", "seconds"), [(1, 1), (2, 2), (7, 60)])
def test_a_clear_restarts_the_count(failures_since: int, seconds: int) -> None:
    # When a task is cleared, Airflow sets its max_tries to the tries so far plus its retries.
    tries_before = 12
    assert next_try_seconds(tries_before + failures_since, tries_before + UNLIMITED_RETRIES) == seconds


def test_the_policy_retries_with_that_wait_and_reports_it() -> None:
    decision = UnlimitedRetryPolicy().evaluate(RuntimeError("stalled"), 4, UNLIMITED_RETRIES)
    assert decision.action is RetryAction.RETRY
    assert decision.retry_delay is not None
    assert decision.retry_delay.total_seconds() == 8
    assert decision.reason == "next try in 8 s"


def test_an_error_that_knows_when_to_try_again_is_believed_and_the_sentence_agrees() -> None:
    decision = UnlimitedRetryPolicy().evaluate(HeldMessagesError("held"), 4, UNLIMITED_RETRIES)
    assert decision.retry_delay == timedelta(seconds=1)
    task = BaseOperator(task_id="a_task", **unlimited_retries())
    assert (
        describe_next_retry(task, a_try(4, max_tries=UNLIMITED_RETRIES)["ti"], retry_after_seconds=1)
        == "Next try in 1 s."
    )


@pytest.mark.parametrize(
    ("settings", "try_number", "max_tries", "sentence"),
    [
        (unlimited_retries(), 4, UNLIMITED_RETRIES, "Next try in 8 s."),
        (unlimited_retries(), 14, 12 + UNLIMITED_RETRIES, "Next try in 2 s."),
        ({"retries": 2, "retry_delay": timedelta(minutes=1)}, 2, 2, "Next try in 60 s."),
        (
            {"retries": 2, "retry_exponential_backoff": 2.0},
            2,
            2,
            "It is tried again by its own retry settings.",
        ),
        ({"retries": 2}, 3, 2, "It is not tried again by itself; clear the task to try again."),
        ({}, 1, 0, "It is not tried again by itself; clear the task to try again."),
    ],
)
def test_when_the_next_try_is_depends_on_what_the_task_was_given(
    settings: dict[str, Any], try_number: int, max_tries: int, sentence: str
) -> None:
    task = BaseOperator(task_id="a_task", **settings)
    assert describe_next_retry(task, a_try(try_number, max_tries=max_tries)["ti"]) == sentence


def test_a_task_that_a_clear_does_not_help_names_what_to_do_instead() -> None:
    task = BaseOperator(task_id="a_task", retries=2)
    assert describe_next_retry(task, a_try(3, max_tries=2)["ti"], "Trigger the Dag again.") == "Trigger the Dag again."
    assert describe_next_retry(task, a_try(2, max_tries=2)["ti"], "Trigger the Dag again.").startswith("Next try in ")


@pytest.mark.parametrize(
    ("try_number", "max_tries", "is_long"),
    [
        pytest.param(6, UNLIMITED_RETRIES, False, id="32 s"),
        pytest.param(7, UNLIMITED_RETRIES, True, id="60 s"),
        pytest.param(13, 12 + UNLIMITED_RETRIES, False, id="first failure since a clear"),
        pytest.param(19, 12 + UNLIMITED_RETRIES, True, id="seventh failure since a clear"),
    ],
)
def test_a_stall_is_long_when_its_next_wait_is_the_longest(try_number: int, max_tries: int, *, is_long: bool) -> None:
    task = BaseOperator(task_id="a_task", **unlimited_retries())
    assert is_long_stall(task, a_try(try_number, max_tries=max_tries)["ti"]) == is_long


def test_a_stall_of_a_task_with_retries_of_its_own_is_never_long() -> None:
    task = BaseOperator(task_id="a_task", retries=100, retry_delay=timedelta(minutes=10))
    assert not is_long_stall(task, a_try(50, max_tries=100)["ti"])


@pytest.mark.parametrize(
    ("try_number", "retry_after", "sentence", "is_long"),
    [
        (4, None, "Next try in at most 60 s.", False),
        (14, None, "Next try in 60 s.", True),  # the task waits for it, deferred
        (14, 1, "Next try in at most 60 s.", True),
    ],
)
def test_an_airflow_that_asks_no_policy_has_only_its_own_back_off(
    monkeypatch: pytest.MonkeyPatch, try_number: int, retry_after: int | None, sentence: str, *, is_long: bool
) -> None:
    monkeypatch.setattr(retries, "ASKS_POLICIES", False)
    task = BaseOperator(task_id="a_task", **unlimited_retries())
    ti = a_try(try_number, max_tries=UNLIMITED_RETRIES)["ti"]
    assert (task.retries, task.retry_policy) == (UNLIMITED_RETRIES, None)
    assert describe_next_retry(task, ti, retry_after_seconds=retry_after) == sentence
    assert is_long_stall(task, ti) == is_long


def test_the_policy_survives_its_serialization() -> None:
    assert isinstance(UnlimitedRetryPolicy.deserialize(UnlimitedRetryPolicy().serialize()), UnlimitedRetryPolicy)


def test_retries_fit_airflows_column_even_after_a_clear() -> None:
    assert UNLIMITED_RETRIES + 1_000_000 < LARGEST_INTEGER
    assert 2 * UNLIMITED_RETRIES < LARGEST_INTEGER
