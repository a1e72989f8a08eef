"""Triggers as code: one YAML file each, validated by the model of its type."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from workorders.core.definitions.admission import Idempotency, Sequence
from workorders.core.definitions.fields import IMPORT_PATH, import_paths
from workorders.core.exceptions import ConfigurationError, one_line

TRIGGER_TYPES_GROUP = "workorders.trigger_types"
"""Entry point group in which a distribution announces a trigger type: its name, and its definition's class."""

Model = TypeVar("Model", bound=BaseModel)

_NAME = r"^[a-z0-9][a-z0-9_-]*$"
_NAME_IN_WORDS = "small letters, digits, - and _, beginning with a letter or digit"
Name = Annotated[str, Field(pattern=_NAME, max_length=100)]


class TriggerDefinition(BaseModel):
    """What every trigger says of itself; a type adds its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: Name
    """Unique name: small letters, digits, `-` and `_`. It names the DAGs and stands in every message."""
    type: str
    """Type of the trigger, such as `kafka`."""
    workflow: Name
    """Name of the workflow that the work orders are for."""
    description: str = ""
    """What the trigger is for; shown with its DAGs."""
    owner: str = "workorders"
    """Owner of the DAGs in Airflow."""
    tags: tuple[str, ...] = ()
    """Tags of the DAGs, beside the ones that every trigger gets."""
    database_connection: str = "workorders_db"
    """Airflow connection of the Postgres database that holds the work orders."""
    idempotency: Idempotency | None = None
    """By what a repeated event is known; nothing is held to be repeated if not given."""
    sequence: Sequence | None = None
    """By what numbers the events of one key are let in; in any order if not given."""
    notify: Annotated[tuple[Annotated[str, Field(pattern=f"^{IMPORT_PATH}$")], ...], BeforeValidator(import_paths)] = ()
    """What is called with an alert: names in modules, each of a function that takes the alert, or of an instance of an
    Airflow notifier."""


def trigger_types() -> Mapping[str, type[TriggerDefinition]]:
    """Return the class of each trigger type that is installed, by the type's name."""
    return {point.name: point.load() for point in entry_points(group=TRIGGER_TYPES_GROUP)}


def trigger_files(folder: Path) -> list[Path]:
    """Return the trigger files of a folder, by name.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"The folder of trigger files {folder} does not exist; create it or name another.")
    return sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})


def load_definition(path: Path, types: Mapping[str, type[TriggerDefinition]] | None = None) -> TriggerDefinition:
    """Read one trigger file.

    Raises:
        ConfigurationError: the file is no YAML mapping, its type is unknown, or a field is wrong.
    """
    known = trigger_types() if types is None else types
    content = read_mapping(path, form="a trigger file is a mapping with the fields name, type, workflow, ...")
    return parse_definition(content, known, where=path.name)


def parse_definition(
    content: Mapping[str, Any], types: Mapping[str, type[TriggerDefinition]], *, where: str
) -> TriggerDefinition:
    """Validate a trigger's fields by the model of its type.

    Raises:
        ConfigurationError: with a line for each wrong field.
    """
    model = types.get(str(content.get("type")))
    if model is None:
        raise ConfigurationError(
            f"{where}: type: expected one of {', '.join(sorted(types))}, got {content.get('type')!r}."
        )
    return validate(content, model, where=where)


def read_mapping(path: Path, *, form: str, may_be_empty: bool = False) -> Mapping[str, Any]:
    """Return what a YAML file says; of an empty one, which only some kinds of files may be, nothing.

    Raises:
        ConfigurationError: the file is no YAML mapping; `form` then says what it should be.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path.name}: this is not YAML: {one_line(error)}") from error
    if content is None and may_be_empty:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path.name}: {form}")
    return content


def validate(content: Mapping[str, Any], model: type[Model], *, where: str) -> Model:
    """Return the definition that `content` is by its model.

    Raises:
        ConfigurationError: with a line for each wrong field.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problems = (_problem(item, model) for item in error.errors(include_url=False))
        raise ConfigurationError("\n".join(f"{where}: {problem}" for problem in problems)) from error


def _problem(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    field = ".".join(str(part) for part in error["loc"])
    explain = _EXPLANATIONS.get(error["type"])
    return f"{field}: {explain(error, model)}" if explain else f"{field}: {error['msg']}, got {error['input']!r}."


def _missing(_error: Mapping[str, Any], _model: type[BaseModel]) -> str:
    return "this field is required."


def _unknown(error: Mapping[str, Any], model: type[BaseModel]) -> str:
    close = difflib.get_close_matches(str(error["loc"][-1]), _field_names(model, error["loc"][:-1]), n=1)
    return f"there is no such field; did you mean {close[0]}?" if close else "there is no such field."


def _own_words(error: Mapping[str, Any], _model: type[BaseModel]) -> str:
    return f"{error['ctx']['error']}"


def _wrong_pattern(error: Mapping[str, Any], _model: type[BaseModel]) -> str:
    pattern = error["ctx"]["pattern"]
    form = _NAME_IN_WORDS if pattern == _NAME else f"a text that matches {pattern}"
    return f"expected {form}, got {error['input']!r}."


_EXPLANATIONS: Mapping[str, Callable[[Mapping[str, Any], type[BaseModel]], str]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    "value_error": _own_words,
    "string_pattern_mismatch": _wrong_pattern,
}


def _field_names(model: type[BaseModel], path: Iterable[Any]) -> list[str]:
    current: Any = model
    for part in path:
        nested = current.model_fields.get(part) if hasattr(current, "model_fields") else None
        current = nested.annotation if nested else None
    return list(current.model_fields) if hasattr(current, "model_fields") else []
