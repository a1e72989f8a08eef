"""The fields of a trigger's file for duplicates and order: `idempotency` and `sequence`."""

from typing import Annotated, Final, Literal

from pydantic import Field

from workorders.core.definitions.fields import Definition, SelectorField, Whole, expecting, seconds

_LARGEST_NUMBER: Final = 2**62
_MAX_PARKED: Final = 1_000_000_000


class Idempotency(Definition):
    """Of the events with one key, one becomes a work order with a run within the window; the others are duplicates."""

    key: SelectorField
    """What identifies an event: `stream`, `key`, `body`, `header:NAME`, `body:/json/pointer` or
    `request:/json/pointer`. An event without it is never a duplicate."""
    window: Annotated[float, seconds(1)]
    """How long a key is kept (seconds, or a text such as `24 h`), from the creation of the work order that has it.
    Choose it longer than the source repeats itself, and longer than the longest stall."""
    on_repeat: Literal["reject", "ignore"] = "reject"
    """What becomes of a duplicate: a rejected work order, or none. An ignored one is counted, and its caller gets the
    answer of the first. What has a position in its source, such as the interval of a schedule, is always rejected."""


class Sequence(Definition):
    """The events of one key are let in by their numbers: behind the mark is a duplicate, beyond a gap is parked."""

    key: SelectorField
    """What the numbers count within, in the form of a selector. An event without it is not held to any order."""
    number: SelectorField
    """The place of the number: a whole number, or its digits as text. Without one the event is rejected."""
    start: Annotated[
        Annotated[Whole, Field(ge=-_LARGEST_NUMBER, le=_LARGEST_NUMBER)] | Literal["first"],
        expecting("a whole number, or first"),
    ] = 0
    """The first number of every key; `first` takes whichever number of a key arrives first."""
    alert_above_parked: Whole = Field(default=1000, ge=1, le=_MAX_PARKED)
    """Parked work orders of one key above which there is an alert."""
    alert_after: Annotated[float, seconds(0)] = 3600.0
    """Time (seconds) that a gap may last before there is an alert."""
