"""Makes a definition of what a file contains, or a sentence for each wrong field."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from workorders.core.exceptions import ConfigurationError

Model = TypeVar("Model", bound=BaseModel)
Lines = Mapping[tuple[Any, ...], int]
"""The line in a file, from 1, of each key and each entry of a list, by the keys and indexes that lead to it."""

_FORMS: Final = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "greater_than_equal": "a whole number",
    "int_type": "a whole number",
    "less_than_equal": "a whole number",
    "literal_error": "{expected}",
    "model_type": "a mapping",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "string_type": "a text",
    "tuple_type": "a list",
}
"""What a value must be, by the type of pydantic's error; `fields.expecting` describes it better for some types."""


def validate(
    content: Mapping[str, Any],
    model: type[Model],
    *,
    where: str,
    folder: Path | None = None,
    lines: Lines = MappingProxyType({}),
) -> Model:
    """Return the definition that `content` is by its model; paths in it are relative to `folder`."""
    try:
        return model.model_validate(content, context={} if folder is None else {"folder": folder})
    except ValidationError as error:
        problems = [
            (_path(item), _sentence(item, _fields(model, item["loc"][:-1]))) for item in error.errors(include_url=False)
        ]
        raise ConfigurationError("\n".join(problem(where, lines, *found) for found in problems)) from error


def problem(where: str, lines: Lines, path: Sequence[Any], sentence: str) -> str:
    """Return a sentence about a field, after its file, its line or that of what should contain it, and its name."""
    outwards = (tuple(path[:end]) for end in range(len(path), 0, -1))
    line = next((f", line {lines[known]}" for known in outwards if known in lines), "")
    return ": ".join((f"{where}{line}", *([".".join(map(str, path))] if path else ()), sentence))


def _path(error: Mapping[str, Any]) -> tuple[Any, ...]:
    own: tuple[str, ...] = getattr(error.get("ctx", {}).get("error"), "path", ())
    return (*error["loc"], *own)


def _sentence(error: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> str:
    kind, given = error["type"], error["input"]
    if kind == "missing":
        return "this field is required."
    if kind == "value_error":
        return str(error["ctx"]["error"])
    name = error["loc"][-1]
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(name), fields, n=1)
        return f"there is no such field; did you mean {close[0]}?" if close else "there is no such field."
    if kind not in _FORMS:
        return f"{error['msg']}, got {given!r}."
    form = _FORMS[kind].format_map(error.get("ctx", {})).replace("'", "") + _range(fields.get(name))
    hint = "; put it in quotes" if kind == "string_type" and isinstance(given, int | float) else ""
    return f"expected {form}, got {given!r}{hint}."


def _range(field: FieldInfo | None) -> str:
    bounds: dict[str, Any] = {}
    for constraint in field.metadata if field else ():
        bounds |= {side: getattr(constraint, side) for side in ("ge", "le") if hasattr(constraint, side)}
    return " from {ge} to {le}".format_map(bounds) if bounds else ""


def _fields(model: type[BaseModel], path: Sequence[Any]) -> Mapping[str, FieldInfo]:
    """Return the fields of the model at a path; none where a path leads elsewhere, such as into a list."""
    fields: Mapping[str, FieldInfo] = model.model_fields
    for part in path:
        annotation = fields[part].annotation if part in fields else None
        nested = (kind for kind in (annotation, *get_args(annotation)) if hasattr(kind, "model_fields"))
        fields = getattr(next(nested, None), "model_fields", {})
    return fields
