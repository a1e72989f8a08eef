import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from local_stack.stack import CHECKOUT
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.definitions.workflow_schema import json_schema, main, published
from workorders.core.exceptions import ConfigurationError
from workorders.core.workflows import declared_in, load, parse, workflow, workflow_files

SCHEMA_FILE = CHECKOUT / "docs" / "schema" / "workflow.schema.json"
EXAMPLES = sorted((CHECKOUT / "include" / "workflows").glob("*.yaml"))
GOOD: dict[str, Any] = {"name": "ship", "callable": "shop.orders:ship"}
WITH_DAG: dict[str, Any] = {"name": "ship", "dag_id": "ship"}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"callable": "shop:ship"}, "name: this field is required."),
    ({"name": "ship"}, "expected either callable or dag_id."),
    ({**GOOD, "dag_id": "ship"}, "expected either callable or dag_id."),
    ({**GOOD, "output_task": "ship"}, "expected dag_id beside output_task, which names a task of that DAG."),
    ({**GOOD, "context_key": None}, "expected dag_id beside context_key; a function is given its context anyway."),
    ({"name": "ship", "dag_id": "ship", "context_key": " "}, "context_key: expected a name such as workorders_context"),
    ({"name": "ship", "dag_id": "ship", "output_task": 3}, "output_task: expected the id of a task of the DAG, got 3"),
    ({**GOOD, "name": "Ship it"}, "name: expected small letters"),
    ({**GOOD, "callable": "shop.orders.ship"}, "callable: expected a function as package.module:function, got"),
    ({**GOOD, "callable": "shop.orders:Orders.ship"}, "callable: expected a function as package.module:function"),
    ({**GOOD, "concurency": 1}, "concurency: there is no such field; did you mean concurrency?"),
    ({**GOOD, "concurrency": 0}, "concurrency: expected a whole number from 1 to"),
    ({**GOOD, "concurrency": True}, "concurrency: expected a whole number from 1 to"),
    ({**GOOD, "timeout_seconds": 0}, "timeout_seconds: expected a whole number from 1 to 2592000, got 0."),
    ({**GOOD, "retries": 3}, "retries: "),
    ({**GOOD, "retries": {"attempts": -1}}, "retries.attempts: expected a whole number from 0 to 1000, got -1."),
    ({**GOOD, "retries": {"first_delay": 1}}, "did you mean first_delay_seconds?"),
    ({**GOOD, "retries": {"after": ["success"]}}, "retries.after: expected a list of some of failed, crashed"),
    ({**GOOD, "retries": {"after": ["lost", "lost"]}}, "retries.after: expected every state once"),
    ({**GOOD, "lane": "kye"}, "lane: expected stream, key, body, header:NAME"),
    ({**GOOD, "retention": {"days": 0}}, "retention.days: expected a whole number of days from 1 to"),
    ({**GOOD, "limits": {"waiting": -5}}, "limits.waiting: expected a whole number from 1 to"),
    ({**GOOD, "limits": {"kind": "firm"}}, "limits.kind: expected soft or hard, got 'firm'."),
    ({**GOOD, "log_bytes": "many"}, "log_bytes: expected a whole number of bytes or a text such as 64 MiB"),
    ({**GOOD, "carry_headers": "traceparent"}, "carry_headers: expected a list of header names"),
]


def test_two_lines_are_a_workflow_with_defaults() -> None:
    definition = parse(GOOD, where="ship.yaml")
    assert (definition.concurrency, definition.timeout_seconds, definition.lane) == (None, 300, None)
    assert (definition.retries.attempts, definition.limits.waiting, definition.retention.days) == (0, None, None)


@pytest.mark.parametrize(("content", "sentence"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_field_is_named_with_the_right_form(content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(content, where="ship.yaml")
    assert str(caught.value).startswith("ship.yaml: ")
    assert sentence in str(caught.value)


def test_every_wrong_field_has_its_line() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse({**GOOD, "concurrency": 0, "lane": "x", "log_bytes": -1}, where="ship.yaml")
    assert len(str(caught.value).splitlines()) == 3


def test_a_definition_stays_the_same_on_its_way_through_the_database() -> None:
    definition = parse({**GOOD, "lane": "header:Tenant", "limits": {"per_day": 5, "kind": "hard"}}, where="ship.yaml")
    assert WorkflowDefinition.model_validate(json.loads(definition.model_dump_json())) == definition


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_example_files_are_right_and_named_after_their_workflow(path: Path) -> None:
    assert load(path).name == path.stem
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), json_schema())


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    for text, sentence in (("- a\n", "a workflow file is a mapping"), ("a: [", "this is not YAML")):
        file = tmp_path / "ship.yaml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=f"^ship.yaml: {sentence}"):
            load(file)


def test_the_files_of_a_folder_come_by_name_and_a_missing_folder_is_said(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "notes.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in workflow_files(tmp_path)] == ["a.yml", "b.yaml"]
    with pytest.raises(ConfigurationError, match="does not exist"):
        workflow_files(tmp_path / "missing")


def test_decorated_functions_are_workflows_of_the_module_that_defines_them() -> None:
    first, second = declared_in("support.decorated_workflows")
    assert (first.name, first.callable) == ("first_steps", "support.decorated_workflows:first_steps")
    assert (str(first.lane), first.retries.attempts) == ("key", 2)
    assert (second.name, second.concurrency) == ("second", 1)


def test_a_decorated_function_can_be_called_as_before() -> None:
    from support.decorated_workflows import first_steps

    assert first_steps({"a": 1}, None) == {"seen": {"a": 1}}


def test_a_wrong_field_of_a_decorator_names_the_function() -> None:
    with pytest.raises(ConfigurationError, match=r"^json:dumps: concurrency: expected"):
        workflow(concurrency=0)(json.dumps)


def test_only_functions_at_the_top_of_a_module_are_workflows() -> None:
    with pytest.raises(ConfigurationError, match="at the top of a module"):

        @workflow(name="step")
        def step(_event: object, _context: object) -> None: ...


def test_a_module_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"support\.nowhere: this module of workflows cannot be imported"):
        declared_in("support.nowhere")


def test_the_published_schema_is_what_the_model_yields() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == published(), (
        f"write it with: python -m workorders.core.definitions.workflow_schema {SCHEMA_FILE.relative_to(CHECKOUT)}"
    )


def test_the_schema_is_written_to_a_file(tmp_path: Path) -> None:
    main([str(tmp_path / "schema.json")])
    assert (tmp_path / "schema.json").read_text(encoding="utf-8") == published()


@pytest.mark.parametrize(
    "content",
    [GOOD, WITH_DAG, {**WITH_DAG, "context_key": None, "output_task": "sum"}, {**GOOD, "lane": "body:/a"}],
    ids=str,
)
def test_the_schema_takes_what_is_right(content: dict[str, Any]) -> None:
    jsonschema.validate(content, json_schema())


@pytest.mark.parametrize(
    "content",
    [{**GOOD, "dag_id": "x"}, {"name": "a"}, {**GOOD, "lane": "kye"}, {**GOOD, "output_task": "sum"}],
    ids=str,
)
def test_the_schema_refuses_what_is_wrong(content: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, json_schema())


def test_the_schema_describes_every_field() -> None:
    fields: dict[str, Any] = json_schema()["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []
