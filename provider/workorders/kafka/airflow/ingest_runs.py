"""Asks Airflow which ingest runs of batches exist, and which are active."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_RUN_IDS = 100
"""Run ids in one request: they become a part of its URL."""
_ACTIVE = ["queued", "running"]


def run_id(batch_id: int) -> str:
    """Return the id of the ingest run of a batch: derived from it, so that a second dispatch starts no other."""
    return f"batch_{batch_id}"


def is_run_active(dag_id: str, name: str, count: Callable[..., int]) -> bool:
    """Return whether a Dag run is queued or running; it is running while a task waits for its next try."""
    return count(dag_id=dag_id, run_ids=[name], states=_ACTIVE) > 0


@dataclass(frozen=True, slots=True)
class IngestRuns:
    """The runs of one ingest Dag."""

    dag_id: str
    count: Callable[..., int]
    """Counts the Dag runs with some ids and states, as `RuntimeTaskInstance.get_dr_count`."""

    def exists(self, batch_id: int) -> bool:
        """Return whether a batch has a Dag run in any state."""
        return self.count(dag_id=self.dag_id, run_ids=[run_id(batch_id)]) > 0

    def active(self, batch_ids: Sequence[int]) -> set[int]:
        """Return those of the batches whose Dag run is active.

        In nearly every case it is all or none, which costs one request.
        """
        if not batch_ids:
            return set()  # without ids Airflow would count every run
        if len(batch_ids) <= MAX_RUN_IDS:
            found = self.count(dag_id=self.dag_id, run_ids=list(map(run_id, batch_ids)), states=_ACTIVE)
            if found in {0, len(batch_ids)}:
                return set(batch_ids) if found else set()
        middle = len(batch_ids) // 2
        return self.active(batch_ids[:middle]) | self.active(batch_ids[middle:])
