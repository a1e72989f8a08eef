"""The sensor that waits for runs: deferrable, and by default it starts in the triggerer without a worker slot."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from workorders.airflow.sensors.polling import WaitingSensor
from workorders.airflow.triggers.runs import WaitingRunsTrigger
from workorders.core.definitions.workflow import WorkflowDefinition


class WaitForRunsSensor(WaitingSensor):
    """Waits until a workflow has runs that can be claimed, or lost ones to recover.

    It is skipped if nothing came within `idle_after`. It waits for an unavailable database, and fails only on errors
    that waiting cannot solve.

    Args:
        definition: the workflow.
        idle_after: after so long without runs the wait ends, as skipped.
        start_from_trigger: whether the triggerer takes the task straight from the scheduler. With False, a worker
            starts it and hands it over; that is also what happens in `dag.test()`.
    """

    template_fields: Sequence[str] = ("database_connection",)
    trigger_class = WaitingRunsTrigger

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
        self.start(from_trigger=start_from_trigger)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the trigger."""
        return {
            "definition": self._definition,
            "database_connection": self.database_connection,
            "idle_after": self._idle_after,
        }
