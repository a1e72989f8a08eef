"""What all sensors have in common: they are deferrable, and by default start in the triggerer without a worker."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.triggers.base import StartTriggerArgs

from workorders.airflow.retries import next_try
from workorders.airflow.task_errors import readable
from workorders.airflow.triggers.polling import FAILED, WaitingTrigger, path_of
from workorders.core.exceptions import WorkOrdersError

if TYPE_CHECKING:
    from airflow.sdk import Context


class CannotWaitError(WorkOrdersError):
    """What is waited for cannot be looked for, and waiting does not help: a person must."""


class WaitingSensor(BaseSensorOperator):
    """Waits by a `WaitingTrigger`: deferrable, and by default it starts in the triggerer without a worker.

    A class of it names its `trigger_class`, and ends its `__init__` with `start`.
    """

    trigger_class: ClassVar[type[WaitingTrigger]]
    ui_color = "#e8f1fa"
    # Of the class, for mapped tasks: they always start on a worker.
    start_from_trigger = False

    def start(self, *, from_trigger: bool) -> None:
        """Say where the task begins: in the triggerer, or on a worker that hands it over at once."""
        self.start_from_trigger = from_trigger
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=path_of(self.trigger_class),
            trigger_kwargs=self.arguments(),
            next_method="execute_complete",
        )

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the trigger, by what the fields hold now: templates may have been rendered."""

    def execute(self, context: "Context") -> None:
        """Hand the wait over to the triggerer; runs only when a worker started the task."""
        self.defer(trigger=self.trigger_class(**self.arguments()), method_name="execute_complete")

    @readable
    def execute_complete(self, context: "Context", event: Any = None) -> None:
        """Fail with the trigger's sentence and the time of the next try; else the trigger has ended the task itself.

        Without a failure this runs only in `dag.test()`.

        Raises:
            CannotWaitError: what is waited for cannot be looked for.
        """
        if isinstance(event, dict) and FAILED in event:
            raise CannotWaitError(f"{event[FAILED]} {next_try(self, context['ti'])}")
