"""Triggers and workflows out of YAML files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from workorders.core.definitions.trigger import TriggerDefinition, trigger_types
from workorders.core.definitions.validation import validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError, one_line


def yaml_files(folder: Path, kind: str) -> list[Path]:
    """Return the YAML files of a folder, by name; `kind` is what they define, `trigger` or `workflow`.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"The folder of {kind} files {folder} does not exist; create it or name another.")
    return sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})


def load_trigger(path: Path, types: Mapping[str, type[TriggerDefinition]] | None = None) -> TriggerDefinition:
    """Read one trigger file.

    Raises:
        ConfigurationError: the file is no YAML mapping, its type is unknown, or a field is wrong.
    """
    known = trigger_types() if types is None else types
    content = read_mapping(path, form="a trigger file is a mapping with the fields name, type, workflow, ...")
    return parse_trigger(content, known, where=path.name, folder=path.parent)


def parse_trigger(
    content: Mapping[str, Any],
    types: Mapping[str, type[TriggerDefinition]],
    *,
    where: str,
    folder: Path | None = None,
) -> TriggerDefinition:
    """Validate a trigger's fields by the model of its type; paths in it are relative to `folder`.

    Raises:
        ConfigurationError: with a line for each wrong field.
    """
    model = types.get(str(content.get("type")))
    if model is None:
        raise ConfigurationError(
            f"{where}: type: expected one of {', '.join(sorted(types))}, got {content.get('type')!r}."
        )
    return validate(content, model, where=where, folder=folder)


def load_workflow(path: Path) -> WorkflowDefinition:
    """Read one workflow file.

    Raises:
        ConfigurationError: the file is no YAML mapping, or a field is wrong.
    """
    form = "a workflow file is a mapping with the fields name, callable, ..."
    return parse_workflow(read_mapping(path, form=form), where=path.name)


def parse_workflow(content: Mapping[str, Any], *, where: str) -> WorkflowDefinition:
    """Validate a workflow's fields.

    Raises:
        ConfigurationError: with a line for each wrong field.
    """
    return validate(content, WorkflowDefinition, where=where)


def read_mapping(path: Path, *, form: str, may_be_empty: bool = False) -> Mapping[str, Any]:
    """Return what a YAML file contains; nothing for an empty one, which only some kinds of files may be.

    Raises:
        ConfigurationError: the file is no YAML mapping; `form` then describes what it should be.
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
