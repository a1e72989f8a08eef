"""The operator that executes a workflow's runs with its callable."""

import os
from functools import partial
from typing import Any

from workorders.airflow.operators.base import WorkflowOperator
from workorders.core.worker.secret_masking import Mask, secrets_in, secrets_of
from workorders.core.worker.worker import Worker, WorkerConfig
from workorders.core.workflows import Workflow
from workorders.outbox.enqueue import enqueue_published


class ExecuteRunsOperator(WorkflowOperator):
    """Claims runs of a workflow and calls its callable for each, until none waits or its time slice ends.

    The task fails if the callable cannot be imported or the database is unavailable. See `WorkflowOperator`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._worker: Worker | None = None
        self._is_stopped = False

    def work(self, url: str, workflow: Workflow) -> None:
        """Claim runs, and call the callable in warm processes."""
        mask = Mask({*secrets_of(os.environ), *secrets_in(url)})
        worker = Worker(
            workflow,
            WorkerConfig(
                database_url=url,
                enqueue=enqueue_published,
                mask=mask,
                log=partial(self.log.info, "%s"),
                claim_seconds=self.definition.claim_seconds,
            ),
        )
        self._worker = worker
        if self._is_stopped:
            worker.stop()
        try:
            worker.work()
        finally:
            self.log_summary(worker.id, worker.summary)

    def on_kill(self) -> None:
        """Release the runs that have not begun, or claim none if the worker does not exist yet."""
        self._is_stopped = True
        if self._worker is not None:
            self._worker.stop()
