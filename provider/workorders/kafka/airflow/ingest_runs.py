"""Asks Airflow which ingest runs are active, starts them, and ends the growth of a paused trigger's batch."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from workorders import dag_ids
from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.notifications import Log
from workorders.airflow.page_links import PageLink, page_address
from workorders.airflow.task_errors import EXPECTED_FAILURES, reason

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

    from workorders.kafka.ingest.ingest_attempt import IngestAttempt

MAX_NOTE_CHARACTERS = 1000
"""Airflow's limit of a note, in characters."""
WATCH_SECONDS: Final = 5.0
"""Time between two questions whether the Dags of a batch that grows are paused."""
BATCH_ID = "{{ task.batch_of(run_id) or params.batch_id }}"
"""Template of the batch that an ingest run is for, with `dag_ids.batch_of` as an attribute of the operator: from the id
of the run if that is the id of a batch's run, otherwise from its configuration. A person may have started a Dag run of
that id with another batch, and it is not replaced."""


class BatchLink(PageLink):
    """A button of a task of an ingest run: it leads to the ranges of its batch, with links to their work orders."""

    def __init__(self) -> None:
        super().__init__("Work orders of this batch")

    def get_link(self, operator: Any, *, ti_key: "TaskInstanceKey") -> str:
        """Return the address of the page of the operator's batch."""
        # Not of the Dag run: its id need not be that of a batch's run, and a person's own Dag has another id.
        batch = dag_ids.batch(int(operator.batch_id))
        return page_address("dag-run", dag_id=dag_ids.ingest(operator.definition.name), run_id=batch)


def dispatch(dag_runs: DagRuns, batch_id: int, label: str, log: Log, *, is_new: bool) -> bool:
    """Start the ingest run of an unfinished batch with its ranges as the note, and return whether it was started.

    A Dag run that has ended is started again, and an active one is not changed. A batch that was planned just now is
    new.
    """
    name, dag_id = dag_ids.batch(batch_id), dag_runs.dag_id
    conf = {"batch_id": batch_id}
    note = label if len(label) <= MAX_NOTE_CHARACTERS else label[: MAX_NOTE_CHARACTERS - 4] + " ..."
    if dag_runs.start(name, conf, note):
        if not is_new:
            log.warning("Batch %s is unfinished and has no run %s; it is dispatched now.", batch_id, name)
        log.info("Started run %s of Dag %s.", name, dag_id)
        return True
    # Airflow kills the tasks of a Dag run that it clears, also of one that the last try of this task just started.
    if dag_runs.unfinished([name]):
        log.info("Run %s of Dag %s is active already; nothing was started.", name, dag_id)
        return False
    log.warning(
        "Batch %s is unfinished and its run %s has ended; the run is started again, because a batch is never given up. "
        "To hold it back, pause %s.",
        *(batch_id, name, dag_id),
    )
    dag_runs.start(name, conf, note, clear=True)
    log.info("Started run %s of Dag %s again.", name, dag_id)
    return True


def active(dag_runs: DagRuns, batch_ids: Sequence[int]) -> set[int]:
    """Return those of the batches whose ingest run is active."""
    names = {dag_ids.batch(batch_id): batch_id for batch_id in batch_ids}
    return {names[name] for name in dag_runs.unfinished(list(names))}


@contextmanager
def watch_growth(attempt: "IngestAttempt", dag_ids: Sequence[str], log: Log) -> Iterator[None]:
    """Let a thread ask Airflow whether one of the Dags is paused, and close the batch's lease then.

    The driver, which lets the batch grow, never asks Airflow.
    """
    dags = [DagRuns(dag_id) for dag_id in dag_ids]
    ended = threading.Event()

    def is_closed() -> bool:
        try:
            paused = next((dag.dag_id for dag in dags if dag.is_paused()), None)
            if paused is not None:
                attempt.close_lease()
                log.info("Dag %s is paused, so the batch grows no more.", paused)
        except EXPECTED_FAILURES as error:
            log.warning("Whether the Dags are paused is not known: %s", reason(error))
            return False
        return paused is not None

    def watch() -> None:
        while not (ended.wait(WATCH_SECONDS) or is_closed()):
            pass

    thread = threading.Thread(target=watch, name="workorders-growth-watch", daemon=True)
    if dags and not is_closed():
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()
