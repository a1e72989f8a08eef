"""Which messages of a topic a trigger takes: conditions on what selectors find, all of which must hold."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from workorders.core.exceptions import ConfigurationError
from workorders.core.items import Item
from workorders.core.selectors import FORM, Selector, canonical

_EXAMPLE: Final = "such as {header:type: [created, changed], body:/country: DE, body:/test: {exists: false}}"
_OPERATORS: Final = ("not", "exists")
_HEADER: Final = "header:"


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold for the value that a selector finds in a message."""

    selector: Selector
    values: frozenset[bytes] | None
    """The values, as canonical JSON; None for any value."""
    is_negated: bool = False
    """Whether the message must have none of the values."""

    def holds(self, value: bytes | None) -> bool:
        """Return whether a value meets the condition; None is a missing or null one."""
        found = value is not None if self.values is None else value in self.values
        return found is not self.is_negated


@dataclass(frozen=True)
class MessageFilter:
    """The messages that a trigger takes. Of each other message it is counted that it was left out, and nothing else."""

    fields: Mapping[str, Any]
    """What a file has: selectors, and the condition of each."""

    @classmethod
    def parse(cls, value: Any) -> "MessageFilter":
        """Read the form of a trigger file.

        Raises:
            ValueError: it has another form.
        """
        if isinstance(value, MessageFilter):
            return value
        if not isinstance(value, Mapping) or not value:
            raise ValueError(f"expected selectors with a condition for each, {_EXAMPLE}, got {value!r}.")
        found = cls(dict(value))
        _ = found.conditions
        return found

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions."""
        return tuple(condition for text, given in self.fields.items() for condition in _conditions(text, given))

    def holds(self, request: bytes, item: Item) -> bool:
        """Return whether a message meets the conditions.

        A rejected message has no input, so the conditions on an input are left open: it stays visible as rejected.

        Args:
            request: of the message, before any of it was left out because of its size.
            item: what the message becomes.
        """
        is_rejected = item.body is None
        given = item._replace(request=request) if is_rejected else item
        return all(
            condition.holds(condition.selector.value(given))
            for condition in self.conditions
            if not (is_rejected and condition.selector.text.startswith("body"))
        )


def _conditions(text: Any, given: Any) -> list[Condition]:
    """Return the conditions of one selector; raise as `MessageFilter.parse`."""
    try:
        selector = Selector.parse(text)
    except ConfigurationError as error:
        raise ValueError(str(error)) from error
    if not isinstance(given, Mapping):
        return [Condition(selector, _values(selector, given))]
    if not given or not set(given) <= set(_OPERATORS) or not isinstance(given.get("exists", True), bool):
        raise ValueError(
            f"expected for {text} a value, a list of values, {{not: ...}}, or {{exists: true or false}}, got {given!r}."
        )
    found = []
    if "not" in given:
        found.append(Condition(selector, _values(selector, given["not"]), is_negated=True))
    if "exists" in given:
        found.append(Condition(selector, None, is_negated=not given["exists"]))
    return found


def _values(selector: Selector, given: Any) -> frozenset[bytes]:
    values = given if isinstance(given, list | tuple) else [given]
    if not values:
        raise ValueError(f"expected for {selector} a list with at least one value.")
    return frozenset(_value(selector, value) for value in values)


def _value(selector: Selector, value: Any) -> bytes:
    if selector.text.startswith((_HEADER, "stream")) and not isinstance(value, str):
        raise ValueError(f"expected for {selector} a text, in quotes if it looks like a number, got {value!r}.")
    if isinstance(value, float) and math.isfinite(value):
        value = Decimal(repr(value))
    if not isinstance(value, str | int | Decimal):  # bool is an int
        raise ValueError(
            f"expected for {selector} a text, a number, true or false (and {{exists: false}} for null), got {value!r}."
        )
    return canonical(value)


_VALUE: Final = {"type": ["string", "number", "boolean"]}
_VALUES: Final = {"anyOf": [_VALUE, {"type": "array", "items": _VALUE, "minItems": 1}]}

FilterField = Annotated[
    MessageFilter,
    PlainValidator(MessageFilter.parse),
    PlainSerializer(lambda found: dict(found.fields), return_type=dict[str, Any]),
    WithJsonSchema(
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": FORM},
            "additionalProperties": {
                "anyOf": [
                    *_VALUES["anyOf"],
                    {
                        "type": "object",
                        "properties": {"not": _VALUES, "exists": {"type": "boolean"}},
                        "minProperties": 1,
                        "additionalProperties": False,
                    },
                ]
            },
        }
    ),
]
"""A filter, written as it is in a file."""
