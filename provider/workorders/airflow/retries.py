"""Unlimited retries after 1, 2, 4 ... 60 seconds, counted from the last clear; and when the next try of a task is."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from workorders.core.postgres.connection import MAX_DELAY_SECONDS, delay_seconds

try:
    from airflow.sdk import RetryDecision, RetryPolicy
except ImportError:  # Airflow 3.2
    RetryPolicy = object  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

ASKS_POLICIES: Final = RetryPolicy is not object
"""Whether a worker asks a task's own policy when to try again. Airflow 3.2 knows its own exponential back-off only."""

UNLIMITED_RETRIES = 1_000_000_000
"""More than 1,900 years of tries; twice as many would overflow Airflow's 32-bit column when a task is cleared."""


def tries_since_clear(try_number: int, max_tries: int) -> int:
    """Return the number of this try, counted from the last clear, or from the first when there was none.

    Airflow's try number keeps growing over clears, and its `max_tries` with it: their difference does not.
    """
    return try_number - max(max_tries - UNLIMITED_RETRIES, 0)


def next_try_seconds(try_number: int, max_tries: int) -> int:
    """Return the wait after this try failed, in seconds.

    Airflow's own exponential back-off does not count from the last clear, and adds a random part.
    """
    return delay_seconds(tries_since_clear(try_number, max_tries))


def is_long_stall(task: "BaseOperator", ti: "RuntimeTaskInstanceProtocol") -> bool:
    """Return whether a task with unlimited retries has failed so often that its next wait is the longest."""
    return task.retries == UNLIMITED_RETRIES and next_try_seconds(ti.try_number, ti.max_tries) == MAX_DELAY_SECONDS


class UnlimitedRetryPolicy(RetryPolicy):
    """Retries without limit: work that was not recorded is neither given up nor skipped."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: "Context | None" = None
    ) -> "RetryDecision":
        """Return the wait after this failure: the error's own `retry_after_seconds`, or the next one of the series."""
        delay = getattr(exception, "retry_after_seconds", None) or next_try_seconds(try_number, max_tries)
        return RetryDecision.retry(delay=timedelta(seconds=delay), reason=f"next try in {delay} s")

    def serialize(self) -> dict[str, Any]:
        """Return nothing: the policy has no settings."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "UnlimitedRetryPolicy":
        """Return the policy."""
        return cls()


def describe_next_retry(
    task: "BaseOperator",
    ti: "RuntimeTaskInstanceProtocol",
    again: str | None = None,
    retry_after_seconds: int | None = None,
) -> str:
    """Return when a task that fails now is tried again, as a sentence.

    `again` is what happens after the last try; `retry_after_seconds` is the wait that the failure itself asks for.
    """
    if ti.try_number > ti.max_tries:
        return again or "It is not tried again by itself; clear the task to try again."
    if task.retries == UNLIMITED_RETRIES:
        if ASKS_POLICIES or (retry_after_seconds is None and is_long_stall(task, ti)):
            return f"Next try in {retry_after_seconds or next_try_seconds(ti.try_number, ti.max_tries)} s."
        return f"Next try in at most {MAX_DELAY_SECONDS} s."
    if not (getattr(task, "retry_policy", None) or task.retry_exponential_backoff):
        return f"Next try in {task.retry_delay.total_seconds():.0f} s."
    return "It is tried again by its own retry settings."


def unlimited_retries() -> dict[str, Any]:
    """Return the arguments of a task with unlimited retries."""
    # Airflow's own back-off applies where no worker asks the policy, as after one was killed.
    return {
        "retries": UNLIMITED_RETRIES,
        **({"retry_policy": UnlimitedRetryPolicy()} if ASKS_POLICIES else {}),
        "retry_delay": timedelta(seconds=1),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": timedelta(seconds=MAX_DELAY_SECONDS),
    }
