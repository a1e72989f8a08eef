"""The operator of workflows that run a DAG."""

import os
from functools import partial
from threading import Event
from typing import Any

from workorders.airflow.dag_runs.executor import Following
from workorders.airflow.operators.base import GroupOperator
from workorders.core.worker.secret_masking import Mask, secrets_in, secrets_of
from workorders.core.workflows import Workflow


class RunDagsOperator(GroupOperator):
    """Starts a run of a DAG for each run of a workflow, with the input as its conf, and follows their states.

    The `processes` of the definition is how many DAG runs are followed at a time. See `GroupOperator`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._stop = Event()

    def work(self, url: str, workflow: Workflow) -> None:
        """Claim runs, and follow the DAG runs that are started for them."""
        following = Following(
            url,
            workflow,
            stop=self._stop,
            claim_seconds=self.definition.claim_seconds,
            say=partial(self.log.info, "%s"),
            mask=Mask({*secrets_of(os.environ), *secrets_in(url)}),
        )
        self.say_what_became(following.group_id, following.work())

    def on_kill(self) -> None:
        """End soon; DAG runs that were started go on, and their runs are found lost."""
        self._stop.set()
