"""The JSON Schemas of definitions' files, for editors."""

import ast
import inspect
import json
import textwrap
from itertools import pairwise
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from workorders.core.definitions.trigger import trigger_types
from workorders.core.definitions.workflow import OF_FUNCTIONS, WorkflowDefinition
from workorders.core.exceptions import ConfigurationError

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
WORKFLOW: Final = "workflow"


class _Documented(GenerateJsonSchema):
    """Describes each field by the docstring below it.

    Pydantic's `use_attribute_docstrings` does so while a class is made. For that it looks up the files of all loaded
    modules, in each process that needs a definition.
    """

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of a model."""
        documented = super().model_schema(schema)
        texts = _docstrings(schema["cls"])
        for name, field in documented.get("properties", {}).items():
            if name in texts:
                field["description"] = texts[name]
        return documented


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema that a model yields, with the docstrings of its fields as their descriptions."""
    return model.model_json_schema(schema_generator=_Documented)


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field that has one, those of the parents included."""
    found: dict[str, str] = {}
    for class_ in reversed(model.__mro__):
        if BaseModel in class_.__mro__[1:]:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(class_))).body
            for field, below in pairwise(getattr(tree, "body", ())):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[name] = inspect.cleandoc(text)
    return found


def trigger_schema(type_: str) -> dict[str, Any]:
    """Return the schema that the model of a trigger type yields."""
    known = trigger_types()
    if type_ not in known:
        raise ConfigurationError(f"There is no trigger type {type_}; there are {', '.join(sorted(known))}.")
    model = known[type_].load()
    schema = schema_of(model)
    # A file contains its type, though in Python it may be left out.
    schema["required"] = [name for name, field in model.model_fields.items() if field.is_required() or name == "type"]
    return {"$schema": DIALECT, **schema, "title": f"{type_.capitalize()} trigger"}


def workflow_schema() -> dict[str, Any]:
    """Return the schema that the model yields, that a workflow has a function or a Dag, and what needs which."""
    schema = schema_of(WorkflowDefinition)
    schema["required"] = ["name"]
    schema["oneOf"] = [{"required": ["callable"]}, {"required": ["dag_id"]}]
    schema["dependentRequired"] = {"context_key": ["dag_id"], **{name: ["callable"] for name in OF_FUNCTIONS}}
    return {"$schema": DIALECT, **schema, "title": "Workflow"}


def published(kind: str) -> str:
    """Return the text of the published file of a trigger type, or of `workflow`."""
    return json.dumps(workflow_schema() if kind == WORKFLOW else trigger_schema(kind), indent=2) + "\n"
