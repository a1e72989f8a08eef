"""The JSON Schema of a workflow's file, for editors; run as a module it writes the published file."""

import json
import sys
from pathlib import Path
from typing import Any

from workorders.core.definitions.workflow import WorkflowDefinition

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema that the model yields, that a workflow has a function or a DAG, and what needs a DAG."""
    schema = WorkflowDefinition.model_json_schema()
    schema["required"] = ["name"]
    schema["oneOf"] = [{"required": ["callable"]}, {"required": ["dag_id"]}]
    schema["dependentRequired"] = {"context_key": ["dag_id"], "output_task": ["dag_id"]}
    return {"$schema": DIALECT, **schema, "title": "Workflow"}


def published() -> str:
    """Return the text of the published file."""
    return json.dumps(json_schema(), indent=2) + "\n"


def main(arguments: list[str]) -> None:
    """Write the schema to the file that the only argument names."""
    (path,) = arguments
    Path(path).write_text(published(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
