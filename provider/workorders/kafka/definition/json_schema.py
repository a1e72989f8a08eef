"""A JSON Schema in a trigger's file: its path, or the schema itself, which is what the database keeps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from pydantic import PlainValidator, ValidationInfo, WithJsonSchema

from workorders.core.exceptions import one_line
from workorders.kafka.definition.json_schema_cost import BASE, SchemaCost, objects_in, patterns_of

FOLDER: Final = "folder"
"""The key in the context of a validation under which the folder of the trigger's file is."""
_BACKTRACKS: Final = 5000
"""After so many steps back, a pattern does not match; a hostile text must not hold a partition."""
_PATTERN_BYTES: Final = 64 * 1024 * 1024
"""Memory of all regular expressions of a schema; one has at most a sixth of it."""
_PATTERN_CHARACTERS: Final = 128 * 1024
"""Of all regular expressions of a schema: to read them takes 350 times as many bytes."""


class Validator:
    """Validates values by a JSON Schema in bounded time. It never fetches anything."""

    def __init__(self, schema: Any, references: Sequence[tuple[str, Any]] = ()) -> None:
        """Compile a schema.

        Args:
            schema: the schema, of the draft that it names, or else 2020-12.
            references: names and contents of the schemas that it refers to.

        Raises:
            ValueError: it is no JSON Schema, or refers to something else, or to itself in a circle.
        """
        import jsonschema_rs  # noqa: PLC0415 - an extra that few triggers need

        documents = [schema, *(document for _, document in references)]
        objects = [one for document in documents for one in objects_in(document)]
        patterns = {pattern for node in objects for pattern in patterns_of(node)}
        if sum(map(len, patterns)) > _PATTERN_CHARACTERS:
            raise ValueError(f"its regular expressions have more than {_PATTERN_CHARACTERS} characters")
        size = _PATTERN_BYTES // max(6, len(patterns))
        slow = {pattern for pattern in patterns if not _is_linear(jsonschema_rs, pattern, size)}
        #: Tells whether the time to validate a value has a bound.
        self.cost = SchemaCost(schema, references, slow)
        options: dict[str, Any] = {
            "pattern_options": jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=size)
        }
        if references:
            options |= {"registry": jsonschema_rs.Registry(list(references)), "base_uri": BASE}
        #: The library's validator, for values that the cost allows.
        self.rules = jsonschema_rs.validator_for(schema, offline=True, **options)


def _is_linear(jsonschema_rs: Any, pattern: str, size: int) -> bool:
    options = jsonschema_rs.RegexOptions(size_limit=size)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, offline=True, pattern_options=options)
    except ValueError:
        return False
    return True


def _schema(value: Any, info: ValidationInfo) -> dict[str, Any]:
    if isinstance(value, str):
        value = _read(Path((info.context or {}).get(FOLDER, "."), value))
    if not isinstance(value, Mapping):
        raise ValueError(f"expected the path of a JSON Schema file, or a JSON Schema, got {value!r}.")
    try:
        Validator(dict(value))
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
