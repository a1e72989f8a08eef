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
from workorders.core.exceptions import ConfigurationError

EXAMPLES = sorted((CHECKOUT / "include" / "workflows").glob("*.yaml"))
GOOD: dict[str, Any] = {"name": "ship", "callable": "shop.orders:ship"}
WITH_DAG: dict[str, Any] = {"name": "ship", "dag_id": "ship"}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"callable": "shop:ship"}, "name: this field is required."),
    ({"name": "ship"}, "expected either callable or dag_id."),
    ({**GOOD, "dag_id": "ship"}, "expected either callable or dag_id."),
    ({**GOOD, "output_task": "ship"}, "expected dag_id with output_task, which is a task of that Dag."),
    ({**GOOD, "context_key": None}, "expected dag_id with context_key; a function always gets its context."),
    ({"name": "ship", "dag_id": "ship", "context_key": " "}, "context_key: expected a name such as workorders_context"),
    ({"name": "ship", "dag_id": "ship", "output_task": 3}, "output_task: expected the id of a task of the Dag, got 3"),
    ({**GOOD, "name": "Ship it"}, "name: expected up to 100 small letters"),
    ({**GOOD, "callable": "shop.orders.ship"}, "callable: expected a function as package.module:function, got"),
    ({**GOOD, "callable": "shop.orders:Orders.ship"}, "callable: expected a function as package.module:function"),
    ({**GOOD, "concurency": 1}, "concurency: there is no such field; did you mean concurrency?"),
    ({**GOOD, "concurrency": 0}, "concurrency: expected a whole number from 1 to"),
    ({**GOOD, "concurrency": True}, "concurrency: expected a whole number from 1 to"),
    ({**GOOD, "timeout_seconds": 0}, "timeout_seconds: expected a whole number from 1 to 2592000, got 0."),
    ({**GOOD, "linger": -1}, "linger: expected a number of seconds"),
    ({**GOOD, "retries": 3}, "retries: "),
    ({**GOOD, "retries": {"attempts": -1}}, "retries.attempts: expected a whole number from 0 to 1000, got -1."),
    ({**GOOD, "retries": {"first_delay": 1}}, "did you mean first_delay_seconds?"),
    ({**GOOD, "retries": {"after": ["success"]}}, "retries.after: expected a list of some of failed, crashed"),
    ({**GOOD, "retries": {"after": ["lost", "lost"]}}, "retries.after: expected each entry once"),
    ({**GOOD, "ordering_key": "kye"}, "ordering_key: expected stream, key, body, header:NAME"),
    ({**GOOD, "retention": {"days": 0}}, "retention.days: expected a whole number of days from 1 to"),
    ({**GOOD, "limits": {"waiting": -5}}, "limits.waiting: expected a whole number from 1 to"),
    ({**GOOD, "limits": {"kind": "firm"}}, "limits.kind: expected soft or hard, got 'firm'."),
    ({**GOOD, "log_bytes": "many"}, "log_bytes: expected a whole number of bytes or a text such as 64 MiB"),
    ({**GOOD, "carry_headers": "traceparent"}, "carry_headers: expected a list of header names"),
]


def test_two_lines_are_a_workflow_with_defaults() -> None:
    definition = WorkflowDefinition.model_validate(GOOD)
    assert (definition.concurrency, definition.timeout_seconds, definition.ordering_key) == (None, 300, None)
    assert (definition.linger, WorkflowDefinition.model_validate({**GOOD, "linger": "0 s"}).linger) == (20, 0)
    assert (definition.retries.attempts, definition.limits.waiting, definition.retention.days) == (0, None, None)


@pytest.mark.parametrize(("content", "sentence"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_field_is_named_with_the_right_form(content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        WorkflowDefinition.model_validate(content)
    assert str(caught.value).startswith("ship.yaml: ")
    assert sentence in str(caught.value)


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
