"""The fields that every trigger's file has, and the installed trigger types."""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from workorders.core.definitions.fields import (
    DagDefinition,
    Definition,
    FieldError,
    ImportPath,
    KeyField,
    Name,
    SelectorField,
    Whole,
    each_once,
    expecting,
    seconds,
)
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError
from workorders.core.selectors import Selector

TRIGGER_TYPES_GROUP = "workorders.trigger_types"
"""Entry point group in which a distribution announces a trigger type: its name, and its definition's class."""

_LARGEST_NUMBER: Final = 2**62
_MAX_PARKED: Final = 1_000_000_000

FoundWorkflow = WorkflowDefinition | ConfigurationError | None
"""A workflow's definition, or the mistake of the file that may define it; None if no file does."""


class Idempotency(Definition):
    """Of the events with one key, one becomes a work order with a run within the window; the others are duplicates."""

    key: KeyField
    """What identifies an event: `stream`, `key`, `body`, `header:NAME`, `body:/json/pointer` or
    `request:/json/pointer`, or a list of them, which identify it together. An event without it, or without a part of
    it, is never a duplicate."""
    window: Annotated[float, seconds(60)]
    """How long a key is kept, from the creation of the work order that has it.
    At least a minute; choose it longer than the source repeats itself, and longer than the longest stall."""
    on_duplicate: Literal["reject", "ignore"] = "reject"
    """What becomes of a duplicate: a rejected work order, or none. An ignored one is counted, and its caller gets the
    answer of the first. What has a position in its source, such as the interval of a schedule, is always rejected."""


class Sequence(Definition):
    """The events of one key are admitted by number: a known number is a duplicate, one above a gap is parked."""

    key: KeyField
    """What the numbers count within: a selector, or a list of them. An event without it, or without a part of it, has
    no order."""
    number: SelectorField
    """The place of the number: a whole number, or its digits as text. Without one the event is rejected."""
    start: Annotated[
        Annotated[Whole, Field(ge=-_LARGEST_NUMBER, le=_LARGEST_NUMBER)] | Literal["first"],
        expecting("a whole number, or first"),
    ] = 0
    """The first number of every key; `first` is the number of a key that arrives first."""
    alert_above_parked: Whole = Field(default=1000, ge=1, le=_MAX_PARKED)
    """Parked work orders of one key above which there is an alert."""
    alert_after: Annotated[float, seconds(0)] = 3600.0
    """Time that a gap may last before there is an alert."""


class TriggerDefinition(DagDefinition):
    """The fields that every trigger has; a type adds its own."""

    request_fields: ClassVar[frozenset[str] | None] = None
    """The fields that a request of the type may have; None if the type does not tell."""
    has_streams: ClassVar[bool] = True
    """Whether the events of the type come in streams."""

    type: str
    """Type of the trigger, such as `kafka`."""
    workflow: Name
    """Name of the workflow that the work orders are for."""
    idempotency: Idempotency | None = None
    """How duplicates of an event are recognized; not at all if not given."""
    sequence: Sequence | None = None
    """How the events of one key are ordered; in any order if not given."""
    notify: Annotated[
        tuple[ImportPath, ...],
        AfterValidator(each_once),
        expecting("a list of names in modules such as [shop.alerts.page]"),
    ] = ()
    """What is called with an alert: import paths, each of a function that takes the alert or of an Airflow notifier."""

    _found_workflow: FoundWorkflow = PrivateAttr(None)

    @property
    def found_workflow(self) -> FoundWorkflow:
        """The definition of the workflow, as the files had it when this trigger's file was read."""
        return self._found_workflow

    def with_workflow(self, found: FoundWorkflow) -> Self:
        """Return the trigger with the definition of its workflow, which is stored together with it."""
        copy = self.model_copy()
        copy._found_workflow = found
        return copy

    def instead_of_header(self, _name: str, /) -> str | None:
        """Return what to write in place of a header that no request has, by its name in small letters; else None."""
        has_headers = self.request_fields is None or "headers" in self.request_fields
        return None if has_headers else "a selector other than a header"

    def selectors(self) -> Iterator[tuple[tuple[str, ...], Selector]]:
        """Yield the selectors of the trigger, each with the path of its field."""
        if self.idempotency is not None:
            yield ("idempotency", "key"), self.idempotency.key
        if self.sequence is not None:
            yield ("sequence", "key"), self.sequence.key
            yield ("sequence", "number"), self.sequence.number

    @model_validator(mode="after")
    def _selectors_can_match(self) -> Self:
        for path, selector in self.selectors():
            for part in selector.parts:
                if (expected := self._unmatched(part)) is not None:
                    raise FieldError(path, f"expected {expected}, got {part}, which no event of this trigger has.")
        return self

    def _unmatched(self, selector: str) -> str | None:
        """Return what to write in place of a selector that can match no event; None if it can match one."""
        source, _, place = selector.partition(":")
        known = self.request_fields
        field = place.split("/")[1] if source == "request" else source
        if source == "header":
            return self.instead_of_header(place.lower())
        if source in {"request", "key"} and known is not None and field not in known:
            return f"a selector such as body:/id, or request:/ with one of {', '.join(sorted(known))}"
        if source == "stream" and not self.has_streams:
            return "a selector such as body:/id"
        return None


def installed(group: str) -> EntryPoints:
    """Return what distributions announce in a group."""
    found: EntryPoints = _all_installed().select(group=group)
    return found


@cache
def _all_installed() -> Any:
    # Once for all triggers and groups: it reads a file of each distribution, and takes longer than a trigger file.
    return entry_points()


def trigger_types() -> dict[str, EntryPoint]:
    """Return what imports the class of each installed trigger type, by the type's name."""
    return {point.name: point for point in installed(TRIGGER_TYPES_GROUP)}
