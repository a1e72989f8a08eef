"""Airflow's own Kafka trigger, which rejects messages that are no JSON objects, as its documentation tells."""

from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.apache.kafka.triggers.shared_stream import KafkaSharedStreamTrigger
from airflow.triggers.base import TriggerEvent
from airflow.triggers.shared_stream import reject_shared_stream_event

from compare.function import as_object


class ObjectTrigger(KafkaSharedStreamTrigger):
    """Fires for each JSON object."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Name this class, so that the triggerer makes one of it."""
        return "compare.airflow_trigger.ObjectTrigger", super().serialize()[1]

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Fire for objects, and let Airflow send all others to the dead letter topic."""
        async for value in shared_stream:
            try:
                event = TriggerEvent(as_object(value))  # type: ignore[no-untyped-call]
            except ValueError:
                reject_shared_stream_event()
            else:
                yield event
