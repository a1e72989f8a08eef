"""The sensors of workflows: they wait for runs of work orders, and for the Dag runs that execute them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from workorders.airflow.sensors.polling import PollingSensor
from workorders.airflow.triggers.runs import WaitForDagRunsTrigger, WaitForRunsTrigger
from workorders.core.definitions.workflow import WorkflowDefinition


class WaitForRunsSensor(PollingSensor):
    """Waits until a workflow has runs that can be claimed, or lost ones to recover.

    It is skipped if there are none within `idle_after`. It waits out an outage of the database; any other failure
    fails the task.

    Args:
        definition: the workflow.
        idle_after: time without runs after which the wait ends as skipped.
        start_from_trigger: whether the task starts in the triggerer. If False, or in `dag.test()`, a worker starts it
            and defers.
    """

    template_fields: Sequence[str] = ("database_connection",)
    trigger_class = WaitForRunsTrigger

    def __init__(
        self,
        *,
        definition: WorkflowDefinition,
        idle_after: timedelta = timedelta(hours=1),
        start_from_trigger: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.database_connection = definition.database_connection
        self.start(
            from_trigger=start_from_trigger,
            definition=definition.model_dump(mode="json"),
            idle_after=idle_after.total_seconds(),
        )


class WaitForDagRunsSensor(WaitForRunsSensor):
    """Waits until a workflow has runs that can be claimed, or a Dag run of it has ended or lasted too long.

    See `WaitForRunsSensor`.
    """

    trigger_class = WaitForDagRunsTrigger
