"""A time in which Airflow's API does not answer: it is asked again, after longer and longer pauses."""

import time
from collections.abc import Callable
from typing import Final

from airflow.sdk.exceptions import AirflowRuntimeError

from workorders.core.backoff import delay_seconds
from workorders.core.exceptions import one_line

LONGEST_SECONDS: Final = 600.0
"""Longest time that is stood; by then Airflow has usually ended a task that it does not hear from."""


class Outage:
    """What a group knows of Airflow's silence.

    Args:
        say: is told when it is asked again, and when it answers.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since: float | None = None
        self._failures = 0

    @property
    def pause_seconds(self) -> int:
        """Time until it is to be asked again; 0 while it answers."""
        return delay_seconds(self._failures) if self._failures else 0

    def met(self, error: AirflowRuntimeError) -> None:
        """Count a question that was not answered.

        Raises:
            AirflowRuntimeError: it has been silent for too long.
        """
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        self._failures += 1
        if now - self._since > LONGEST_SECONDS:
            raise error
        self._say(
            f"Airflow does not say how its DAG runs are, which go on; it is asked again in {self.pause_seconds} s: "
            f"{one_line(error)}"
        )

    def answered(self) -> None:
        """Forget the silence."""
        if self._since is not None:
            seconds = time.monotonic() - self._since
            self._say(f"Airflow answers again, after {seconds:.0f} s; its DAG runs are followed as before.")
        self._since, self._failures = None, 0
