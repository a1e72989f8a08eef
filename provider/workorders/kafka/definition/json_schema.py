"""A JSON Schema in a trigger's file: its path, or the schema itself, which is what the database keeps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from pydantic import PlainValidator, ValidationInfo, WithJsonSchema

from workorders.core.exceptions import one_line

FOLDER: Final = "folder"
"""The key in the context of a validation under which the folder of the trigger's file is."""
_BACKTRACKS: Final = 100_000
"""After so many steps back, a pattern does not match; a hostile text must not hold a partition."""


def make_validator(schema: Any, references: Sequence[tuple[str, Any]] = ()) -> Any:
    """Return the validator of a JSON Schema. It never fetches anything.

    Args:
        schema: the schema, of the draft that it names, or else 2020-12.
        references: names and contents of the schemas that it refers to.

    Raises:
        jsonschema_rs.ValidationError: it is no JSON Schema, or refers to something else.
    """
    import jsonschema_rs  # noqa: PLC0415 - an extra that few triggers need

    options: dict[str, Any] = {"pattern_options": jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)}
    if references:
        options |= {"registry": jsonschema_rs.Registry(list(references)), "base_uri": "json-schema:///"}
    return jsonschema_rs.validator_for(schema, offline=True, **options)


def _schema(value: Any, info: ValidationInfo) -> dict[str, Any]:
    if isinstance(value, str):
        value = _read(Path((info.context or {}).get(FOLDER, "."), value))
    if not isinstance(value, Mapping):
        raise ValueError(f"expected the path of a JSON Schema file, or a JSON Schema, got {value!r}.")
    try:
        make_validator(dict(value))
    except ImportError as error:
        raise ValueError("expected the package's extra `formats`, which checks values; it is not installed.") from error
    except Exception as error:
        text = one_line(str(error).partition("\n")[0])
        raise ValueError(
            f"expected a JSON Schema that refers to nothing outside itself, got one with: {text}"
        ) from error
    return dict(value)


def _read(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"expected the path of a JSON Schema file, got {path} ({error.strerror}).") from error
    except orjson.JSONDecodeError as error:
        raise ValueError(f"expected a JSON Schema file, but {path} is no JSON ({error}).") from error


JsonSchemaField = Annotated[
    dict[str, Any], PlainValidator(_schema), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})
]
"""A JSON Schema; a path is relative to the folder of the trigger's file."""
