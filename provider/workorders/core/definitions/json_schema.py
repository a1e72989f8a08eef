"""The JSON Schemas of definitions' files, for editors."""

import json
from typing import Any, Final

from workorders.core.definitions.trigger import trigger_types
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
WORKFLOW: Final = "workflow"


def trigger_schema(type_: str) -> dict[str, Any]:
    """Return the schema that the model of a trigger type yields.

    Raises:
        ConfigurationError: there is no such type.
    """
    known = trigger_types()
    model = known.get(type_)
    if model is None:
        raise ConfigurationError(f"There is no trigger type {type_}; there are {', '.join(sorted(known))}.")
    schema = model.model_json_schema()
    # A file contains its type, though in Python it may be left out.
    schema["required"] = [name for name, field in model.model_fields.items() if field.is_required() or name == "type"]
    return {"$schema": DIALECT, **schema, "title": f"{type_.capitalize()} trigger"}


def workflow_schema() -> dict[str, Any]:
    """Return the schema that the model yields, that a workflow has a function or a Dag, and what needs a Dag."""
    schema = WorkflowDefinition.model_json_schema()
    schema["required"] = ["name"]
    schema["oneOf"] = [{"required": ["callable"]}, {"required": ["dag_id"]}]
    schema["dependentRequired"] = {"context_key": ["dag_id"], "output_task": ["dag_id"]}
    return {"$schema": DIALECT, **schema, "title": "Workflow"}


def published(kind: str) -> str:
    """Return the text of the published file of a trigger type, or of `workflow`.

    Raises:
        ConfigurationError: there is no such type.
    """
    return json.dumps(workflow_schema() if kind == WORKFLOW else trigger_schema(kind), indent=2) + "\n"
