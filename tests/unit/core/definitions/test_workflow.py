import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from local_stack.stack import CHECKOUT
from workorders.core.definitions.json_schema import workflow_schema
from workorders.core.definitions.loading import load_workflow
from workorders.core.definitions.workflow import WorkflowDefinition, declared_workflows, workflow
from workorders.core.exceptions import ConfigurationError

EXAMPLES = sorted((CHECKOUT / "include" / "workflows").glob("*.yaml"))
GOOD: dict[str, Any] = {"name": "ship", "callable": "shop.orders:ship"}
WITH_DAG: dict[str, Any] = {"name": "ship", "dag_id": "ship"}


def test_two_lines_are_a_workflow_with_defaults() -> None:
    definition = WorkflowDefinition.model_validate(GOOD)
    assert (definition.concurrency, definition.timeout, definition.ordering_key) == (None, 300, None)
    assert (definition.linger, WorkflowDefinition.model_validate({**GOOD, "linger": "0s"}).linger) == (20, 0)
    assert (definition.retries.max_retries, definition.limits.max_waiting, definition.retention.delete_after) == (
        0,
        None,
        None,
    )


def test_a_definition_stays_the_same_on_its_way_through_the_database() -> None:
    definition = WorkflowDefinition.model_validate(
        {**GOOD, "ordering_key": "header:Tenant", "limits": {"max_per_day": 5, "on_reached": "wait"}}
    )
    assert WorkflowDefinition.model_validate(json.loads(definition.model_dump_json())) == definition


def test_the_database_of_a_function_is_a_connection_or_a_connection_with_limits() -> None:
    short = WorkflowDefinition.model_validate({**GOOD, "database": "shop_db"}).database
    limited = {"connection": "shop_db", "lock_timeout": "2s"}
    long = WorkflowDefinition.model_validate({**GOOD, "database": limited}).database
    assert short
    assert long
    assert (short.connection, short.statement_timeout, short.lock_timeout, short.idle_timeout) == (
        "shop_db",
        60,
        10,
        60,
    )
    assert long == short.model_copy(update={"lock_timeout": 2})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({**GOOD, "database": 5432}, "expected the id of an Airflow connection, or its id and limits, got 5432"),
        ({**GOOD, "database": " "}, "expected the id of an Airflow connection, got ' '"),
        ({**GOOD, "database": {"connection": "shop_db", "idle_timeout": 0}}, r"at least 0\.001 s, got 0"),
        ({**WITH_DAG, "database": "shop_db"}, "expected callable with database"),
    ],
)
def test_a_database_that_no_function_can_use_is_refused(content: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        WorkflowDefinition.model_validate(content)


@pytest.mark.parametrize(
    "field", ["max_log_bytes", "max_output_bytes", "max_published_messages", "max_published_bytes"]
)
def test_a_limit_of_what_only_a_function_does_is_refused_for_a_dag(field: str) -> None:
    with pytest.raises(ValueError, match=f"expected callable with {field}; for a Dag it has no effect, so leave out"):
        WorkflowDefinition.model_validate({**WITH_DAG, field: 5})
    assert getattr(WorkflowDefinition.model_validate({**GOOD, field: 5}), field) == 5


def test_the_definition_of_a_dag_stays_the_same_on_its_way_through_the_database() -> None:
    definition = WorkflowDefinition.model_validate(WITH_DAG)
    assert WorkflowDefinition.model_validate(json.loads(definition.model_dump_json())) == definition


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_example_files_are_right_and_named_after_their_workflow(path: Path) -> None:
    assert load_workflow(path).name == path.stem
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), workflow_schema())


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        {**GOOD, "database": "shop_db"},
        WITH_DAG,
        {**WITH_DAG, "context_key": None},
        {**GOOD, "ordering_key": "body:/a"},
    ],
    ids=str,
)
def test_the_schema_takes_what_is_right(content: dict[str, Any]) -> None:
    jsonschema.validate(content, workflow_schema())


@pytest.mark.parametrize(
    "content",
    [
        {**GOOD, "dag_id": "x"},
        {"name": "a"},
        {**GOOD, "ordering_key": "kye"},
        {**GOOD, "context_key": "run"},
        {**WITH_DAG, "max_output_bytes": 5},
    ],
    ids=str,
)
def test_the_schema_refuses_what_is_wrong(content: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, workflow_schema())


def test_the_schema_describes_every_field() -> None:
    fields: dict[str, Any] = workflow_schema()["properties"]
    assert [name for name, field in fields.items() if not field.get("description")] == []


def test_decorated_functions_are_workflows_of_the_module_that_defines_them() -> None:
    first, second = declared_workflows("support.decorated_workflows")
    assert (first.name, first.callable) == ("first_steps", "support.decorated_workflows:first_steps")
    assert (str(first.ordering_key), first.retries.max_retries) == ("key", 2)
    assert (second.name, second.concurrency) == ("second", 1)


def test_a_decorated_function_can_be_called_as_before() -> None:
    from support.decorated_workflows import first_steps

    assert first_steps({"a": 1}, None) == {"seen": {"a": 1}}


def test_a_wrong_field_of_a_decorator_names_the_function() -> None:
    with pytest.raises(ConfigurationError, match=r"^json:dumps, line \d+: concurrency: expected"):
        workflow(concurrency=0)(json.dumps)


def test_only_functions_at_the_top_of_a_module_are_workflows() -> None:
    with pytest.raises(ConfigurationError, match="at the top of a module"):

        @workflow(name="step")
        def step(_event: object, _context: object) -> None: ...


def test_a_mistake_in_a_module_is_told_with_the_function_and_its_line() -> None:
    with pytest.raises(ConfigurationError) as caught:
        declared_workflows("support.decorated_wrongly")
    assert str(caught.value).startswith("support.decorated_wrongly:wrong, line 8: concurency: there is no such field;")


@pytest.mark.parametrize("given", ["second", {"name": "second"}, 3])
def test_what_is_no_function_is_not_decorated(given: object) -> None:
    with pytest.raises(ConfigurationError, match="takes its fields by name"):
        workflow(given)  # type: ignore[call-overload]


def test_a_function_that_yields_is_no_workflow() -> None:
    with pytest.raises(ConfigurationError, match="this one yields"):
        workflow(yielding)


def yielding(_event: object, _context: object) -> Iterator[int]:
    yield 1
