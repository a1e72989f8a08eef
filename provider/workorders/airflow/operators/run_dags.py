"""The operator of workflows that run a Dag."""

import os
from functools import partial
from typing import ClassVar

from workorders.airflow.dag_runs.executor import DagRunExecutor
from workorders.airflow.operators.base import WorkflowOperator
from workorders.core.worker.secret_masking import Mask, secrets_in, secrets_of
from workorders.core.workflows import Workflow


class RunDagsOperator(WorkflowOperator):
    """Records the ends of Dag runs, and starts one for each run that can be claimed, with the input as its conf.

    It waits for none of them: `WaitForDagRunsSensor` does so in the triggerer. It attaches to a Dag run that exists, so
    a task that dies costs no second one. `processes` times `workers` of the definition is how many run at a time.
    """

    undone: ClassVar[str] = "Started Dag runs continue; the next try records their ends and starts pending runs."

    def work(self, url: str, workflow: Workflow) -> None:
        """Record the ends of Dag runs, claim runs, and start Dag runs for them."""
        executor = DagRunExecutor(
            url,
            workflow,
            log=partial(self.log.info, "%s"),
            mask=Mask({*secrets_of(os.environ), *secrets_in(url)}),
        )
        try:
            executor.work()
        finally:
            self.log_summary(executor.owner, executor.summary)
