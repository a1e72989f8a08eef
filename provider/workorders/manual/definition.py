"""The definition of a manual trigger: what its file may say."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from workorders.core.definitions.fields import one_of
from workorders.core.definitions.trigger import TriggerDefinition


def _example(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"expected a mapping such as {{order: 17}}, got {value!r}.")
    return value


class ManualTriggerDefinition(TriggerDefinition):
    """A source of work orders: people who fill in a form."""

    type: Annotated[Literal["manual"], one_of("manual")] = "manual"
    """Type of the trigger."""
    example: Annotated[dict[str, Any], BeforeValidator(_example)] = Field(default_factory=dict)
    """The input that the form begins with."""
