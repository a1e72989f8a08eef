"""Asks Airflow for the ingest runs of batches: which of them still do something, and which exist at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_IN_ONE_REQUEST = 100
"""How many runs are asked for at once: their names stand in the request's address."""
_AT_WORK = ["queued", "running"]


def run_id(batch_id: int) -> str:
    """Return the id of the ingest run of a batch: derived from it, so that handing over twice makes one run."""
    return f"batch_{batch_id}"


def run_at_work(dag_id: str, name: str, count: Callable[..., int]) -> bool:
    """Return whether a run waits for its turn, is at work, or waits for the next try of a task."""
    return count(dag_id=dag_id, run_ids=[name], states=_AT_WORK) > 0


@dataclass(frozen=True, slots=True)
class IngestRuns:
    """The runs of one ingest DAG.

    Args:
        dag_id: the ingest DAG.
        count: Airflow's question for how many runs have these ids and states, `RuntimeTaskInstance.get_dr_count`.
    """

    dag_id: str
    count: Callable[..., int]

    def exists(self, batch_id: int) -> bool:
        """Return whether a batch has a run, whatever its state."""
        return self.count(dag_id=self.dag_id, run_ids=[run_id(batch_id)]) > 0

    def at_work(self, batch_ids: Sequence[int]) -> set[int]:
        """Return those of the batches whose run waits for its turn, is at work, or waits for the next try of a task.

        All or none of them is the answer in nearly every case, and costs one request.
        """
        if not batch_ids:
            return set()  # without names Airflow would count every run
        if len(batch_ids) <= MOST_IN_ONE_REQUEST:
            found = self.count(dag_id=self.dag_id, run_ids=list(map(run_id, batch_ids)), states=_AT_WORK)
            if found in {0, len(batch_ids)}:
                return set(batch_ids) if found else set()
        middle = len(batch_ids) // 2
        return self.at_work(batch_ids[:middle]) | self.at_work(batch_ids[middle:])
