"""Retries without end: 1, 2, 4 ... 60 seconds, counted anew after every clear."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryDecision, RetryPolicy

from workorders.core.backoff import delay_seconds

if TYPE_CHECKING:
    from airflow.sdk import Context

ENDLESS_RETRIES = 1_000_000_000
"""More than 1,900 years of tries; twice as much would overflow Airflow's 32-bit column when a task is cleared."""


class EndlessRetries(RetryPolicy):
    """Tries again for ever: work that was not recorded is never given up, and never skipped."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: "Context | None" = None
    ) -> RetryDecision:
        """Return the wait after this failure.

        Airflow's try number keeps growing over clears, and `max_tries` with it: their difference counts the failures
        since the last clear. Its own exponential back-off does not, and adds a random part.
        """
        failures = try_number - max(max_tries - ENDLESS_RETRIES, 0)
        delay = delay_seconds(failures)
        return RetryDecision.retry(delay=timedelta(seconds=delay), reason=f"next try in {delay} s")

    def serialize(self) -> dict[str, Any]:
        """Return nothing: the policy has no settings."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "EndlessRetries":
        """Return the policy."""
        return cls()
