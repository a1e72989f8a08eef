"""Retries without end: 1, 2, 4 ... 60 seconds, counted anew after every clear; and when the next try of a task is."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryDecision, RetryPolicy

from workorders.core.backoff import LONGEST_SECONDS, delay_seconds

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

ENDLESS_RETRIES = 1_000_000_000
"""More than 1,900 years of tries; twice as much would overflow Airflow's 32-bit column when a task is cleared."""


def tries_since_clear(try_number: int, max_tries: int) -> int:
    """Return the number of this try, counted from the last clear, or from the first when there was none.

    Airflow's try number keeps growing over clears, and its `max_tries` with it: their difference does not.
    """
    return try_number - max(max_tries - ENDLESS_RETRIES, 0)


def next_try_seconds(try_number: int, max_tries: int) -> int:
    """Return the wait after this try failed, in seconds.

    Airflow's own exponential back-off does not count anew after a clear, and adds a random part.
    """
    return delay_seconds(tries_since_clear(try_number, max_tries))


class EndlessRetries(RetryPolicy):
    """Tries again for ever: work that was not recorded is never given up, and never skipped."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: "Context | None" = None
    ) -> RetryDecision:
        """Return the wait after this failure: the error's own `retry_after_seconds`, or the next one of the series."""
        delay = getattr(exception, "retry_after_seconds", None) or next_try_seconds(try_number, max_tries)
        return RetryDecision.retry(delay=timedelta(seconds=delay), reason=f"next try in {delay} s")

    def serialize(self) -> dict[str, Any]:
        """Return nothing: the policy has no settings."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "EndlessRetries":
        """Return the policy."""
        return cls()


def next_try(
    task: "BaseOperator",
    ti: "RuntimeTaskInstanceProtocol",
    again: str | None = None,
    retry_after_seconds: int | None = None,
) -> str:
    """Return when a task that fails now is tried again, as a sentence.

    Args:
        task: the task.
        ti: its instance.
        again: what to do after the last try.
        retry_after_seconds: the wait that the failure itself asks for.
    """
    if ti.try_number > ti.max_tries:
        return again or "It is not tried again by itself; clear the task to try again."
    if isinstance(task.retry_policy, EndlessRetries):
        return f"Next try in {retry_after_seconds or next_try_seconds(ti.try_number, ti.max_tries)} s."
    if task.retry_policy is None and not task.retry_exponential_backoff:
        return f"Next try in {task.retry_delay.total_seconds():.0f} s."
    return "It is tried again when its own retry settings say so."


def endless_retries() -> dict[str, Any]:
    """Return the arguments of a task that is tried again for ever."""
    # The policy is asked on workers. Airflow's own back-off is for what fails without one: a worker that was killed.
    return {
        "retries": ENDLESS_RETRIES,
        "retry_policy": EndlessRetries(),
        "retry_delay": timedelta(seconds=1),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": timedelta(seconds=LONGEST_SECONDS),
    }
