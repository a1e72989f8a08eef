"""The fields of a manual trigger's file."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from workorders.core.definitions.fields import JsonObject, expecting
from workorders.core.definitions.trigger import TriggerDefinition


class ManualTriggerDefinition(TriggerDefinition):
    """A source of work orders: people who fill in a form."""

    task_ids: ClassVar[tuple[str, ...]] = ("create_work_order",)
    request_fields = frozenset({"actor", "reason", "created_at", "account", "key"})
    has_streams = False

    type: Literal["manual"] = "manual"
    """Type of the trigger."""
    example: Annotated[JsonObject, expecting("a mapping such as {order: 17}")] = Field(default_factory=dict)
    """The input that the form shows first."""
