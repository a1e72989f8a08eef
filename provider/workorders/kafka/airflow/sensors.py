"""The sensor of Kafka triggers: it waits for messages."""

from datetime import timedelta
from typing import Any

from workorders.airflow.sensors.polling import PollingSensor
from workorders.kafka.airflow.triggers import NewMessagesTrigger
from workorders.kafka.definition.trigger import KafkaTriggerDefinition


class WaitForMessagesSensor(PollingSensor):
    """Waits until a trigger's topics hold messages that have no work order yet.

    It is skipped if there are none within `idle_after`. It waits out an outage of the cluster or the database; any
    other failure, such as wrong credentials, fails the task.

    Args:
        definition: the trigger.
        ingest_dag_id: the Dag of the ingest. With it, the wait ends as well for an unfinished batch whose Dag run was
            deleted or marked as ended; without it, the next message does that.
        idle_after: time without messages after which the wait ends as skipped.
        start_from_trigger: whether the task starts in the triggerer. If False, in mapped tasks, or in `dag.test()`, a
            worker starts it and defers.
    """

    trigger_class = NewMessagesTrigger

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
        self.start(
            from_trigger=start_from_trigger,
            definition=definition.model_dump(mode="json"),
            ingest_dag_id=ingest_dag_id,
            idle_after=idle_after.total_seconds(),
        )
