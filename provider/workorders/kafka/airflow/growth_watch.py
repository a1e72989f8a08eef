"""Ends the growth of a batch when its Dags are paused: the driver, which grows it, never asks Airflow."""

import threading
from collections.abc import Sequence
from typing import Final, Self

from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.notifications import Log
from workorders.airflow.task_errors import EXPECTED_FAILURES, reason
from workorders.kafka.ingest.ingest_attempt import IngestAttempt

WATCH_SECONDS: Final = 5.0
"""Time between two questions to Airflow."""


class GrowthWatch:
    """A context in which a thread asks Airflow whether a Dag is paused, and closes the batch's lease if one is."""

    def __init__(self, attempt: IngestAttempt, dag_ids: Sequence[str], log: Log) -> None:
        self._attempt = attempt
        self._dags = [DagRuns(dag_id) for dag_id in dag_ids]
        self._log = log
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="workorders-growth-watch", daemon=True)

    def __enter__(self) -> Self:
        if self._dags and not self._is_closed():
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not (self._ended.wait(WATCH_SECONDS) or self._is_closed()):
            pass

    def _is_closed(self) -> bool:
        """Close the lease if a Dag is paused, and return whether it was closed."""
        try:
            paused = next((dag.dag_id for dag in self._dags if dag.is_paused()), None)
            if paused is not None:
                self._attempt.close_lease()
                self._log.info("Dag %s is paused, so the batch grows no more.", paused)
        except EXPECTED_FAILURES as error:
            self._log.warning("Whether the Dags are paused is not known: %s", reason(error))
            return False
        return paused is not None
