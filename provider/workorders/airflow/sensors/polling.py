"""The base of all sensors: deferrable, and started in the triggerer without a worker by default."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.triggers.base import StartTriggerArgs

from workorders.airflow.retries import describe_next_retry
from workorders.airflow.task_errors import log_failure_wrapped
from workorders.airflow.triggers.polling import FAILED, PollingTrigger, path_of
from workorders.core.exceptions import WorkOrdersError

if TYPE_CHECKING:
    from airflow.sdk import Context


class WaitFailedError(WorkOrdersError):
    """A wait failed for a permanent reason."""


class PollingSensor(BaseSensorOperator):
    """Waits by a `PollingTrigger`.

    A subclass sets `trigger_class`, and calls `start` at the end of its `__init__`. Its template fields are arguments
    of the trigger.
    """

    ui_color = "#e8f1fa"
    # For mapped tasks, which read the class and always start on a worker.
    start_from_trigger = False

    @property
    @abstractmethod
    def trigger_class(self) -> type[PollingTrigger]:
        """The trigger that waits."""

    def start(self, *, from_trigger: bool, **fixed: Any) -> None:
        """Set where the task starts, and the arguments of the trigger that are no template fields.

        Args:
            from_trigger: whether it starts in the triggerer; otherwise a worker defers at once.
            fixed: the arguments.
        """
        self._fixed = fixed
        self.start_from_trigger = from_trigger
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=path_of(self.trigger_class),
            trigger_kwargs=self.arguments(),
            next_method="execute_complete",
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the trigger; a worker has rendered the template fields among them."""
        return {**{name: getattr(self, name) for name in self.template_fields}, **self._fixed}

    def execute(self, context: "Context") -> None:
        """Defer to the triggerer; runs only if a worker started the task."""
        self.defer(trigger=self.trigger_class(**self.arguments()), method_name="execute_complete")

    @log_failure_wrapped
    def execute_complete(self, context: "Context", event: Any = None) -> None:
        """Fail with the trigger's sentence and the time of the next try.

        Without a failure this runs only in `dag.test()`, because the trigger ends the task.

        Raises:
            WaitFailedError: the wait failed.
        """
        if isinstance(event, dict) and FAILED in event:
            raise WaitFailedError(f"{event[FAILED]} {describe_next_retry(self, context['ti'])}")
