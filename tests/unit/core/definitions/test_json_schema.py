from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workorders.core.definitions.json_schema import WORKFLOW, published, schema_of, trigger_schema, workflow_schema
from workorders.core.definitions.trigger import trigger_types
from workorders.core.exceptions import ConfigurationError
from workorders.outbox.relay.definition import RelayDefinition

DOCS = Path(__file__).resolve().parents[4] / "docs"

every_type = pytest.mark.parametrize("type_", sorted(trigger_types()))


@pytest.mark.parametrize("kind", [*sorted(trigger_types()), WORKFLOW])
def test_the_published_schema_is_what_the_model_yields(kind: str) -> None:
    file = DOCS / "schema" / ("workflow.schema.json" if kind == WORKFLOW else f"{kind}-trigger.schema.json")
    command = "workflows schema" if kind == WORKFLOW else f"triggers schema {kind}"
    assert file.read_text(encoding="utf-8") == published(kind), (
        f"write it with: workorders {command} > docs/schema/{file.name}"
    )


@every_type
def test_the_schema_describes_every_field_and_asks_for_the_type(type_: str) -> None:
    schema = trigger_schema(type_)
    fields: dict[str, Any] = schema["properties"]
    assert set(fields) == set(trigger_types()[type_].load().model_fields)
    assert [name for name, field in fields.items() if not field.get("description")] == []
    assert {"name", "type", "workflow"} <= set(schema["required"])


def every_schema() -> list[dict[str, Any]]:
    return [*map(trigger_schema, trigger_types()), workflow_schema(), schema_of(RelayDefinition)]


def choices(schema: Any) -> Iterator[str]:
    """Give every text that a field can be only one of."""
    if isinstance(schema, dict):
        yield from (str(text) for text in schema.get("enum", ()))
        yield from ([schema["const"]] if isinstance(schema.get("const"), str) else [])
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from choices(part)


def test_a_choice_in_a_file_is_written_with_underscores_as_fields_are() -> None:
    found = {choice for schema in every_schema() for choice in choices(schema)}
    assert {"at_once", "json_schema", "set_aside"} <= found
    assert [choice for choice in found if "-" in choice] == []


def fields(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every field with its name, also of parts of a file."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from fields(part)


def every_field() -> list[tuple[str, dict[str, Any]]]:
    return [field for schema in every_schema() for field in fields(schema)]


def test_a_duration_in_a_file_has_its_unit_in_its_value_and_not_in_the_name_of_its_field() -> None:
    found = {name for name, _ in every_field()}
    assert {"timeout", "time_slice", "linger", "alert_after", "delete_after"} <= found
    assert [name for name in found if name.endswith(("_seconds", "_minutes", "_days"))] == []


def test_a_field_that_is_a_maximum_begins_with_max_unless_its_word_means_one() -> None:
    of_the_trade = {"concurrency", "processes", "virtual_partitions"}
    maxima = {name for name, field in every_field() if field.get("description", "").startswith(("Maximum", "Largest"))}
    assert len(maxima) > 20
    assert {name for name in maxima if not name.startswith(("max_", "rate_limit_")) and "timeout" not in name} == (
        of_the_trade
    )


def test_a_switch_is_a_verb_or_an_adjective() -> None:
    switches = {name for name, field in every_field() if field.get("type") == "boolean"}
    switches |= {name for name, field in every_field() if {"type": "boolean"} in field.get("anyOf", ())}
    assert switches == {
        *("catchup", "compact", "enabled", "exists", "exponential_backoff", "reply_with_errors", "use_last_output"),
    }


def test_what_happens_in_a_case_is_a_field_that_begins_with_on() -> None:
    found = {name: field["enum"] for name, field in every_field() if name.startswith("on_")}
    assert found == {
        "on_duplicate": ["reject", "ignore"],
        "on_reached": ["reject", "wait"],
        "on_rejected": ["hold", "set_aside"],
    }


def test_a_consumer_group_is_never_called_a_group_alone() -> None:
    assert "group" not in {name for name, _ in every_field()} | {word for s in every_schema() for word in choices(s)}


def test_an_unknown_type_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ConfigurationError, match="There is no trigger type ftp; there are cron, kafka"):
        trigger_schema("ftp")
