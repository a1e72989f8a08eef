"""A selector as the field of a definition's file; apart from selectors, so that creating work orders needs no model."""

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from workorders.core.selectors import FORM, Selector


def _selector(value: Any) -> Selector:
    return value if isinstance(value, Selector) else Selector.parse(value)


SelectorField = Annotated[
    Selector,
    PlainValidator(_selector),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": FORM}),
]
"""A selector, written as its text in files and in the database."""
