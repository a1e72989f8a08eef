import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from local_stack.stack import CHECKOUT
from workorders.core.definitions.json_schema import workflow_schema
from workorders.core.definitions.loading import load_workflow
from workorders.core.definitions.workflow import WorkflowDefinition

EXAMPLES = sorted((CHECKOUT / "include" / "workflows").glob("*.yaml"))
GOOD: dict[str, Any] = {"name": "ship", "callable": "shop.orders:ship"}
WITH_DAG: dict[str, Any] = {"name": "ship", "dag_id": "ship"}


def test_two_lines_are_a_workflow_with_defaults() -> None:
    definition = WorkflowDefinition.model_validate(GOOD)
    assert (definition.concurrency, definition.timeout, definition.ordering_key) == (None, 300, None)
    assert (definition.linger, WorkflowDefinition.model_validate({**GOOD, "linger": "0 s"}).linger) == (20, 0)
    assert (definition.retries.max_retries, definition.limits.waiting, definition.retention.days) == (0, None, None)


def test_a_definition_stays_the_same_on_its_way_through_the_database() -> None:
    definition = WorkflowDefinition.model_validate(
        {**GOOD, "ordering_key": "header:Tenant", "limits": {"per_day": 5, "kind": "hard"}}
    )
    assert WorkflowDefinition.model_validate(json.loads(definition.model_dump_json())) == definition


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_example_files_are_right_and_named_after_their_workflow(path: Path) -> None:
    assert load_workflow(path).name == path.stem
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), workflow_schema())


@pytest.mark.parametrize(
    "content",
    [GOOD, WITH_DAG, {**WITH_DAG, "context_key": None, "output_task": "sum"}, {**GOOD, "ordering_key": "body:/a"}],
    ids=str,
)
def test_the_schema_takes_what_is_right(content: dict[str, Any]) -> None:
    jsonschema.validate(content, workflow_schema())


@pytest.mark.parametrize(
    "content",
    [{**GOOD, "dag_id": "x"}, {"name": "a"}, {**GOOD, "ordering_key": "kye"}, {**GOOD, "output_task": "sum"}],
    ids=str,
)
def test_the_schema_refuses_what_is_wrong(content: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, workflow_schema())


def test_the_schema_describes_every_field() -> None:
    fields: dict[str, Any] = workflow_schema()["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []
