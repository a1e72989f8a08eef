"""`make up REGISTRY=1`: each format of the registry, from a topic through the whole Airflow to work orders."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.definition_files import write_definitions
from support.flow import Flow
from support.observed_trigger import ObservedTrigger, Place
from support.schema_registry import avro, framed, register

pytestmark = pytest.mark.long

AVRO: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "count", "type": "long"}],
}
PROTOBUF: Final = 'syntax = "proto3"; message Order { string id = 1; int32 count = 2; }'
JSON_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {"count": {"type": "integer"}}}


@dataclass(frozen=True, slots=True)
class Case:
    """A format with a good message and a bad one."""

    schema: Any
    schema_type: str
    good: bytes
    """A payload that means ORDER."""
    bad: bytes
    code: str


ORDER: Final = {"id": "a", "count": 2}
CASES: Final = {
    "avro": Case(AVRO, "AVRO", avro(0, AVRO, ORDER)[5:], b"\xff", "undecodable"),
    "protobuf": Case(PROTOBUF, "PROTOBUF", b"\0\x0a\x01a\x10\x02", b"\0\xff", "undecodable"),
    "json_schema": Case(JSON_SCHEMA, "JSON", b'{"id": "a", "count": 2}', b'{"count": "two"}', "schema-violated"),
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    definitions = (
        {
            "name": format_,
            "type": "kafka",
            "workflow": "echo",
            "topics": [f"scenario.{format_}"],
            "format": format_,
            "registry_connection": "registry",
        }
        for format_ in CASES
    )
    with LocalStack(
        airflow=True,
        schema_registry=True,
        triggers_folder=write_definitions(tmp_path_factory.mktemp("formats"), *definitions),
        workflows_folder=tmp_path_factory.mktemp("workflows"),
        name="formats",
    ) as running:
        yield running


@pytest.mark.parametrize("format_", CASES)
def test_a_topic_of_each_format_becomes_work_orders(stack: LocalStack, format_: str) -> None:
    case, observed = CASES[format_], ObservedTrigger.on_stack(stack, format_, f"scenario.{format_}")
    schema_id = register(stack.schema_registry, f"{observed.topic}-value", case.schema, case.schema_type)
    observed.create_topic(2)
    good, bad = framed(schema_id, case.good), framed(schema_id, case.bad)
    places = observed.produce([(0, good), (1, bad), (0, good)])
    api = AirflowApi(stack.airflow_url)
    Flow(api, observed).until_ingested(places)
    api.close()
    assert observed.rejections() == {Place(1, 0): (case.code, bad)}
    with psycopg.connect(stack.database_url) as connection:
        inputs = connection.execute(
            "SELECT body, request -> 'value_schema' FROM workorders.dataclips WHERE request ->> 'topic' = %s",
            [observed.topic],
        ).fetchall()
    assert inputs == [(ORDER, {"id": schema_id})] * 2
