"""The fields of trigger files, workflow files, and the outbox's file, from the models' JSON Schemas."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from workorders.core.definitions.json_schema import schema_of, trigger_schema, workflow_schema
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.outbox.relay.definition import RelayDefinition

Schema = Mapping[str, Any]

_DURATION: Final = "(ms|s|m|h|d|w)$"
_SIZE: Final = "|GiB)$"
_SELECTOR: Final = "^(stream|key|body|"
_UNITS: Final[Mapping[str, tuple[tuple[float, str], ...]]] = {
    "duration": ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"), (0.001, "ms")),
    "size": ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"), (1000**2, "MB"), (1, "B")),
}
_NAMES: Final = {"array": "list", "object": "mapping", "integer": "whole number", "string": "text"}
_LIMITS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
}
_SCHEMAS: Final[Mapping[str, Callable[[], Schema]]] = {
    "workflow": workflow_schema,
    "trigger": partial(schema_of, TriggerDefinition),
    "outbox": partial(schema_of, RelayDefinition),
}


def field_reference(kind: str) -> str:
    """Return a section for every field of a kind of file: `workflow`, `outbox`, `trigger`, or a trigger type.

    The fields that every trigger has are those of `trigger`; a trigger type's are the others.
    """
    if kind in _SCHEMAS:
        schema, shared = _SCHEMAS[kind](), {}
    else:
        schema, shared = trigger_schema(kind), {**_SCHEMAS["trigger"]()["properties"], "type": None}
    return "\n\n".join(_fields(schema, schema.get("$defs", {}), "", shared))


def _fields(schema: Schema, definitions: Mapping[str, Schema], path: str, shared: Schema) -> Iterator[str]:
    for name, field in schema["properties"].items():
        if name in shared and shared[name] in (None, field):
            continue
        yield f"### `{path}{name}`"
        yield _description(field)
        yield _facts(field, definitions, required=name in schema.get("required", ()))
        parts = _parts(field, definitions)
        if len(parts) > 1:
            yield from _variants(parts, definitions, f"{path}{name}.")
        else:
            below = f"{path}{name}.<name>." if _named(field) else f"{path}{name}."
            for part in parts:
                yield from _fields(part, definitions, below, {})


def _variants(parts: list[Schema], definitions: Mapping[str, Schema], path: str) -> Iterator[str]:
    """Give the fields of mappings that a file tells apart by `type`; what several of them share, once."""
    sections: dict[tuple[str, str, str], list[str]] = {}
    for part in parts:
        for name, field in part["properties"].items():
            if name != "type":
                facts = _facts(field, definitions, required=name in part.get("required", ()))
                sections.setdefault((name, _description(field), facts), []).append(part["properties"]["type"]["const"])
    for (name, description, facts), types in sections.items():
        yield f"### `{path}{name}`" + (f" with `type: {types[0]}`" if len(types) == 1 else "")
        yield description
        yield facts if len(types) == 1 else f"- With `type`: {', '.join(f'`{type_}`' for type_ in types)}\n{facts}"


def _description(field: Schema) -> str:
    return " ".join(field.get("description", "").split())


def _facts(field: Schema, definitions: Mapping[str, Schema], *, required: bool) -> str:
    unit = _unit(field)
    types = list(dict.fromkeys(_types(field, definitions)))
    if not required and field.get("default") is None and len(types) > 1:
        types = [type_ for type_ in types if type_ != "`null`"]  # the same as no field
    facts = [f"- Type: {' or '.join(types)}"]
    if required:
        facts.append("required")
    elif field.get("default") not in (None, "", [], {}):
        facts.append(f"default {_value(field['default'], unit)}")
    limits = [
        words.format(_value(option[key], unit))
        for option in [field, *field.get("anyOf", ())]
        for key, words in _LIMITS.items()
        if key in option and not (unit and option[key] == 0)
    ]
    return "; ".join([*facts, *dict.fromkeys(limits)])


def _types(field: Schema, definitions: Mapping[str, Schema]) -> Iterator[str]:
    """Give the forms that a field may have, in words."""
    options = field.get("anyOf") or field.get("oneOf")
    if options:
        if unit := _unit(field):
            yield f"[{unit}](files.md#durations-and-sizes)"
            options = [option for option in options if option.get("type") == "null"]
        for option in options:
            yield from _types(option, definitions)
    elif "$ref" in field:
        yield "mapping, see below"
    elif "enum" in field or "const" in field:
        yield " or ".join(f"`{word}`" for word in field.get("enum", [field.get("const")]))
    elif field.get("type") == "array" and "items" in field:
        yield f"list of {' or '.join(_types(field['items'], definitions))}"
    elif field.get("format") == "date-time":
        yield "time in ISO 8601 with its UTC offset"
    elif field.get("pattern", "").startswith(_SELECTOR):
        yield "[selector](files.md#selectors)"
    elif field.get("pattern") == r"\S":
        yield "text"
    elif "pattern" in field:
        yield f"text that matches `{field['pattern']}`"
    else:
        type_ = str(field.get("type", "any"))
        yield "`null`" if type_ == "null" else _NAMES.get(type_, type_)


def _unit(field: Schema) -> str | None:
    """Tell whether a field is a duration or a size, by the pattern of its text."""
    patterns = [option.get("pattern", "") for option in field.get("anyOf", ())]
    if any(pattern.endswith(_DURATION) for pattern in patterns):
        return "duration"
    return "size" if any(pattern.endswith(_SIZE) for pattern in patterns) else None


def _value(value: Any, unit: str | None) -> str:
    """Return a value as a file would have it."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return ", ".join(f"`{part}`" for part in value)
    if unit and value:
        for factor, name in _UNITS[unit]:
            if (number := round(value / factor, 6)).is_integer() and number:
                return f"`{number:g}{name}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _parts(field: Schema, definitions: Mapping[str, Schema]) -> list[Schema]:
    """Return the mappings that a field may hold; of several, each has a `type`."""
    options = [field, *field.get("anyOf", ()), *field.get("oneOf", ()), *_named(field)]
    return [definitions[option["$ref"].rsplit("/", 1)[-1]] for option in options if "$ref" in option]


def _named(field: Schema) -> list[Schema]:
    """Return what a mapping with names of the user's own holds under each; nothing for any other field."""
    others = field.get("additionalProperties")
    return [*field.get("patternProperties", {}).values(), *([others] if isinstance(others, dict) else [])]
