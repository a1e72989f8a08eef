"""Buttons of the tasks that wait for messages and for the outbox, announced to Airflow by their own plugin."""

from collections.abc import Mapping
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from workorders.airflow.page_links import WaitLink, named


class KafkaTriggerLink(WaitLink):
    """The button of a wait for messages."""

    name = "Kafka trigger"
    operators = named("workorders.kafka.airflow.triggers", "WaitForMessagesSensor")

    def page(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the page of the trigger."""
        return "kafka", arguments["definition"]["name"]


class OutboxLink(WaitLink):
    """The button of a wait for the outbox."""

    name = "Outbox"
    operators = named("workorders.kafka.airflow.outbox_relay", "WaitForOutboxSensor")

    def page(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the page of the outbox."""
        del arguments
        return ("outbox",)


class KafkaLinksPlugin(AirflowPlugin):
    """The buttons, in the form of Airflow's plugins."""

    name = "workorders_kafka"
    operator_extra_links: list[Any] = [KafkaTriggerLink(), OutboxLink()]  # noqa: RUF012 - as in Airflow's own class
