"""The sensor that waits for messages: deferrable, and by default it starts in the triggerer without a worker."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.triggers.base import StartTriggerArgs

from workorders.kafka.airflow.trigger import NewMessagesTrigger
from workorders.kafka.definition import KafkaTriggerDefinition

if TYPE_CHECKING:
    from airflow.sdk import Context


class WaitForMessagesSensor(BaseSensorOperator):
    """Waits until a trigger's topics hold messages that have no work order yet.

    It succeeds when there is something to plan, is skipped when nothing came within `idle_after`, and fails only on
    what waiting cannot heal, such as wrong credentials. A cluster or a database that is away is waited for.

    Args:
        definition: the trigger.
        ingest_dag_id: the DAG that batches are handed over to. With it, the wait ends as well for an unfinished batch
            whose run somebody deleted or marked as ended; without it, the next message's batch takes that one along.
        idle_after: after so long without messages the wait ends, as skipped.
        start_from_trigger: whether the triggerer takes the task straight from the scheduler. With False, a worker
            starts it and hands it over; that is also what happens in mapped tasks and in `dag.test()`.
    """

    template_fields: Sequence[str] = ("topics", "kafka_connection", "database_connection")
    ui_color = "#e8f1fa"
    start_trigger_args: ClassVar[StartTriggerArgs] = StartTriggerArgs(  # type: ignore[misc]
        trigger_cls=f"{NewMessagesTrigger.__module__}.{NewMessagesTrigger.__qualname__}",
        next_method="execute_complete",
    )
    start_from_trigger = False

    def __init__(
        self,
        *,
        definition: KafkaTriggerDefinition,
        ingest_dag_id: str | None = None,
        idle_after: timedelta = timedelta(hours=1),
        start_from_trigger: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.trigger_name = definition.name
        self.topics = list(definition.topics)
        self.kafka_connection = definition.kafka_connection
        self.database_connection = definition.database_connection
        self.ingest_dag_id = ingest_dag_id
        self._limits = {
            "poll_interval": definition.poll_interval,
            "min_messages": definition.min_messages,
            "max_wait": definition.max_wait,
            "rate_limit_per_second": definition.rate_limit_per_second,
            "max_messages": definition.max_messages,
            "idle_after": idle_after.total_seconds(),
        }
        self.start_from_trigger = start_from_trigger
        # Replaced and never changed in place: the class's own arguments are shared by all sensors.
        self.start_trigger_args = replace(self.start_trigger_args, trigger_kwargs=self._arguments())  # type: ignore[misc]

    def execute(self, context: "Context") -> None:
        """Hand the wait over to the triggerer; runs only when a worker started the task."""
        self.defer(trigger=NewMessagesTrigger(**self._arguments()), method_name="execute_complete")

    def execute_complete(self, context: "Context", event: Any = None) -> None:
        """Return: the trigger ends the task itself, so this runs only in `dag.test()`."""

    def _arguments(self) -> dict[str, Any]:
        return {
            "trigger_name": self.trigger_name,
            "topics": self.topics,
            "kafka_connection": self.kafka_connection,
            "database_connection": self.database_connection,
            "ingest_dag_id": self.ingest_dag_id,
            **self._limits,
        }
