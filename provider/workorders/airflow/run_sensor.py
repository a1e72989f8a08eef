"""The sensor that waits for runs: deferrable, and by default it starts in the triggerer without a worker."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.triggers.base import StartTriggerArgs

from workorders.airflow.run_trigger import WaitingRunsTrigger
from workorders.core.workflow_definition import WorkflowDefinition

if TYPE_CHECKING:
    from airflow.sdk import Context


class WaitForRunsSensor(BaseSensorOperator):
    """Waits until a workflow has runs that can be claimed, or lost ones to recover.

    It is skipped when nothing came within `idle_after`, and fails only on what waiting cannot heal. A database that is
    away is waited for.

    Args:
        definition: the workflow.
        idle_after: after so long without runs the wait ends, as skipped.
        start_from_trigger: whether the triggerer takes the task straight from the scheduler. With False, a worker
            starts it and hands it over; that is also what happens in `dag.test()`.
    """

    template_fields: Sequence[str] = ("database_connection",)
    ui_color = "#e8f1fa"
    start_trigger_args: ClassVar[StartTriggerArgs] = StartTriggerArgs(  # type: ignore[misc]
        trigger_cls=f"{WaitingRunsTrigger.__module__}.{WaitingRunsTrigger.__qualname__}",
        next_method="execute_complete",
    )
    start_from_trigger = False

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
        self._definition = definition.model_dump(mode="json")
        self._idle_after = idle_after.total_seconds()
        self.start_from_trigger = start_from_trigger
        # Replaced and never changed in place: the class's own arguments are shared by all sensors.
        self.start_trigger_args = replace(self.start_trigger_args, trigger_kwargs=self._arguments())  # type: ignore[misc]

    def execute(self, context: "Context") -> None:
        """Hand the wait over to the triggerer; runs only when a worker started the task."""
        self.defer(trigger=WaitingRunsTrigger(**self._arguments()), method_name="execute_complete")

    def execute_complete(self, context: "Context", event: Any = None) -> None:
        """Return: the trigger ends the task itself, so this runs only in `dag.test()`."""

    def _arguments(self) -> dict[str, Any]:
        return {
            "definition": self._definition,
            "database_connection": self.database_connection,
            "idle_after": self._idle_after,
        }
