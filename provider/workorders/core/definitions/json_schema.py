"""The JSON Schema of a type's trigger files, for editors; run as a module it writes a published file."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workorders.core.definitions.trigger import TriggerDefinition, trigger_types
from workorders.core.exceptions import ConfigurationError

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(type_: str, types: Mapping[str, type[TriggerDefinition]] | None = None) -> dict[str, Any]:
    """Return the schema that the model of a trigger type yields.

    Raises:
        ConfigurationError: there is no such type.
    """
    known = trigger_types() if types is None else types
    model = known.get(type_)
    if model is None:
        raise ConfigurationError(f"There is no trigger type {type_}; there are {', '.join(sorted(known))}.")
    schema = model.model_json_schema()
    # A file says its type, though in Python it may be left out.
    schema["required"] = [name for name, field in model.model_fields.items() if field.is_required() or name == "type"]
    return {"$schema": DIALECT, **schema, "title": f"{type_.capitalize()} trigger"}


def published(type_: str) -> str:
    """Return the text of the published file.

    Raises:
        ConfigurationError: there is no such type.
    """
    return json.dumps(json_schema(type_), indent=2) + "\n"


def main(arguments: list[str]) -> None:
    """Write the schema of the type that the first argument names to the file that the second one names."""
    type_, path = arguments
    Path(path).write_text(published(type_), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
