"""What a trigger's file may say of duplicates and order: `idempotency` and `sequence`."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from workorders.core.definitions.fields import SECONDS_SCHEMA, seconds, whole_number
from workorders.core.definitions.selector_field import SelectorField

_LARGEST_NUMBER: Final = 2**62
_MOST_PARKED: Final = 1_000_000_000


def _start(value: Any) -> int | str:
    if value == "first":
        return "first"
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST_NUMBER:
        raise ValueError(f"expected a whole number, or first, got {value!r}.")
    return value


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Idempotency(_Part):
    """Of the events with one key, one becomes a run within the window; the others are kept as its duplicates."""

    key: SelectorField
    """What says that two events are one: `stream`, `key`, `body`, `header:NAME`, `body:/json/pointer` or
    `request:/json/pointer`. An event without it is never a duplicate."""
    window: Annotated[float, seconds(1), SECONDS_SCHEMA]
    """How long a key is kept (seconds, or a text such as `24 h`), from the creation of the work order that has it.
    Choose it longer than the source repeats itself, and longer than the longest stall."""


class Sequence(_Part):
    """The events of one key are let in by their numbers: behind the mark is a duplicate, beyond a gap is parked."""

    key: SelectorField
    """What the numbers count within, in the form of a selector. An event without it is not held to any order."""
    number: SelectorField
    """Where the number stands: a whole number, or its digits as text. Without one the event is rejected."""
    start: Annotated[
        int | Literal["first"],
        BeforeValidator(_start),
        Field(json_schema_extra={"anyOf": [{"type": "integer"}, {"const": "first"}]}),
    ] = 0
    """The first number of every key; `first` takes whichever number of a key arrives first."""
    alert_above_parked: Annotated[int, whole_number(1, _MOST_PARKED), Field(json_schema_extra={"minimum": 1})] = 1000
    """Parked work orders of one key above which there is an alert."""
    alert_after: Annotated[float, seconds(0), SECONDS_SCHEMA] = 3600.0
    """Time (seconds) that a gap may last before there is an alert."""
