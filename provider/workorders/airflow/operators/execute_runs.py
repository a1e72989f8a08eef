"""The operator that works through a workflow's runs by its callable."""

import os
from functools import partial
from typing import Any

from workorders.airflow.operators.base import GroupOperator
from workorders.core.worker.secret_masking import Mask, secrets_in, secrets_of
from workorders.core.worker.worker import Group, Surroundings
from workorders.core.workflows import Workflow
from workorders.outbox.enqueue import enqueue_published


class ExecuteRunsOperator(GroupOperator):
    """Claims runs of a workflow, group by group, and calls its callable for each until none is left.

    The task fails when the callable cannot be imported or the database is away. See `GroupOperator`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._at_work: Group | None = None
        self._is_killed = False

    def work(self, url: str, workflow: Workflow) -> None:
        """Claim runs, and let warm processes call the callable."""
        mask = Mask({*secrets_of(os.environ), *secrets_in(url)})
        group = Group(
            workflow,
            Surroundings(
                database_url=url,
                enqueue=enqueue_published,
                mask=mask,
                longest_secret=mask.longest,
                say=partial(self.log.info, "%s"),
                claim_seconds=self.definition.claim_seconds,
                processes=self.definition.processes,
            ),
        )
        self._at_work = group
        if self._is_killed:
            group.stop()
        try:
            group.work()
        finally:
            self.say_what_became(group.id, group.tally)

    def on_kill(self) -> None:
        """Give back what was not begun, or claim nothing if that comes before there was a group."""
        self._is_killed = True
        if self._at_work is not None:
            self._at_work.stop()
