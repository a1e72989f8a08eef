"""Buttons of tasks that wait in the triggerer, where no worker stores the address of a button.

The plugin announces them, and Airflow asks for their addresses in the API server. There it finds a sensor by its name
alone, so none is imported: not every API server has the libraries of a Kafka client.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

from workorders.airflow.page_links import page_address

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


def named(module: str, *names: str) -> list[type[Any]]:
    """Return what stands for some sensors, which are not imported."""
    return [type(name, (), {"__module__": module}) for name in names]


class WaitLink(BaseOperatorLink):
    """A button of a sensor that leads to the page of what it waits for."""

    @abstractmethod
    def page(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the parts of the page's path, from the arguments of the sensor's trigger."""

    def get_link(self, operator: Any, *, ti_key: "TaskInstanceKey") -> str:
        """Return the address of the page."""
        from workorders.airflow.metadata import trigger_arguments  # noqa: PLC0415 - only the API server calls this

        del ti_key
        return page_address(*self.page(trigger_arguments(operator)))


class WorkflowLink(WaitLink):
    """The button of a wait for runs."""

    name = "Workflow"
    operators = named("workorders.airflow.triggers.runs", "WaitForRunsSensor", "WaitForDagRunsSensor")

    def page(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the page of the workflow."""
        return "workflows", arguments["definition"]["name"]
