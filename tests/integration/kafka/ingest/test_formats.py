"""Values and keys by the schemas of a real registry, from a real topic into work orders."""

import datetime
import importlib.util
import json
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from psycopg.rows import dict_row

from local_stack.stack import CHECKOUT, LocalStack
from support.in_process_trigger import InProcessTrigger
from support.schema_registry import RegistryServer, avro, framed
from support.topics import Topics
from workorders.core.bulk.revalidation import revalidate_rejected
from workorders.core.creation.work_orders import Created
from workorders.core.definitions.loading import load_trigger
from workorders.core.postgres.connection import Connection
from workorders.kafka.client.secrets import REGISTRY_VARIABLE
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.formats import protobuf
from workorders.kafka.ledger import batches

Produce = Callable[..., None]
Reading = Callable[..., InProcessTrigger]
Submit = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("whole_work_orders")]

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
MADE: dict[str, Any] = {
    "id": "a",
    "amount": Decimal("12.30"),
    "at": datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC),
}
AS_JSON = {"id": "a", "amount": "12.30", "at": "2026-03-01T12:00:00Z"}
KEY: dict[str, Any] = {"type": "record", "name": "Key", "fields": [{"name": "shop", "type": "int"}]}


@pytest.fixture(scope="module")
def registry(stack: LocalStack) -> Iterator[RegistryServer]:
    server = RegistryServer(stack)
    server.start()
    yield server
    server.process.kill()


def batch(trigger: InProcessTrigger) -> int:
    planned = trigger.plan()
    assert planned.batch_id is not None
    return planned.batch_id


def stored(connection: Connection, trigger: str) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            """
            SELECT work_orders.id, position, body, coalesce(dataclips.request, rejections.request) AS request,
                code, detail, raw
            FROM workorders.work_orders
            JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
            LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
            LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
            WHERE triggers.name = %s ORDER BY position
            """,
            (trigger,),
        ).fetchall()


@pytest.fixture
def topic(topics: Topics, name: str) -> Callable[..., None]:
    """Return what writes values to the topic of the trigger's name."""
    topics.create(name)

    def produce(*values: bytes | None, key: bytes | None = None) -> None:
        topics.produce(name, values, key=key)

    return produce


@pytest.fixture
def reading(stack: LocalStack, registry: RegistryServer, name: str) -> Callable[..., InProcessTrigger]:
    """Return what makes a trigger that decodes by the registry."""

    def made(**formats: str) -> InProcessTrigger:
        return InProcessTrigger(stack, name, registry=registry.settings, registry_connection="registry", **formats)

    return made


def test_avro_values_and_keys_become_json_and_others_are_rejected_with_their_bytes(
    connection: Connection, registry: RegistryServer, topic: Produce, reading: Reading, name: str
) -> None:
    value_id, key_id = registry.register(f"{name}-value", ORDER), registry.register(f"{name}-key", KEY)
    key, good = avro(key_id, KEY, {"shop": 7}), avro(value_id, ORDER, MADE)
    bad = [b"{}", good[:-1], framed(99_999, good[5:]), good + b"\0", b""]
    topic(good, *bad, None, good, key=key)
    topic(good, key=b"plain")
    trigger = reading(format="avro", key_format="avro")
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert (outcome.error, outcome.created) == (None, Created(2, 7))
    rows = stored(connection, name)
    assert [row["body"] for row in rows if row["body"] is not None] == [AS_JSON, AS_JSON]
    first = rows[0]["request"]
    assert first["key"] == {"shop": 7}
    assert first["value_schema"] == {"id": value_id}
    assert first["key_schema"] == {"id": key_id}
    rejected = [(row["code"], row["raw"]) for row in rows if row["code"] is not None]
    codes = ["no-schema-id", "undecodable", "unknown-schema", "undecodable", "no-schema-id", "null-value"]
    assert rejected == [*zip(codes, [*bad, None], strict=True), ("no-schema-id", good)]


def test_a_rejected_message_is_decoded_when_its_schema_is_known(
    connection: Connection, registry: RegistryServer, topic: Produce, reading: Reading, name: str
) -> None:
    later = {**ORDER, "name": f"Order{name.replace('-', '')}"}
    key_id = registry.register(f"{name}-key", KEY)
    value_id = max(key_id, registry.register(f"{name}-other", {**later, "name": f"Other{later['name']}"})) + 1
    topic(avro(value_id, later, MADE), key=avro(key_id, KEY, {"shop": 7}))
    trigger = reading(format="avro", key_format="avro")
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert (outcome.error, outcome.created) == (None, Created(0, 1))
    (row,) = stored(connection, name)
    assert row["code"] == "unknown-schema"
    assert registry.register(f"{name}-value", later) == value_id
    # Another client, because this one remembers for a minute that the schema is unknown.
    another = orjson.dumps({**registry.settings, "timeout": 7}).decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(REGISTRY_VARIABLE, another)
        assert revalidate_rejected(connection, [row["id"]]) == [row["id"]]
    (row,) = stored(connection, name)
    assert (row["body"], row["request"]["key"]) == (AS_JSON, {"shop": 7})
    assert row["request"]["value_schema"] == {"id": value_id}


def test_a_range_stalls_while_the_registry_is_unavailable_and_loses_nothing(
    connection: Connection, stack: LocalStack, topics: Topics, name: str
) -> None:
    topics.create(name)
    own = RegistryServer(stack)
    formats = {"format": "avro", "registry_connection": "registry"}
    trigger = InProcessTrigger(stack, name, registry=own.settings, **formats)
    topics.produce(name, [avro(1, ORDER, MADE)])
    batch_id = batch(trigger)
    (outcome,) = trigger.ingest_messages(batch_id)
    assert f"{name} 0 [0, 1): the schema registry {own.settings['url']} did not answer" in (outcome.error or "")
    assert stored(connection, name) == []
    own.start()
    assert own.register(f"{name}-value", ORDER) == 1
    (outcome,) = trigger.ingest_messages(batch_id)
    assert (outcome.error, outcome.created) == (None, Created(1, 0))
    own.process.kill()


def test_a_range_stalls_while_another_server_answers_404_for_the_registry(
    connection: Connection, stack: LocalStack, topics: Topics, registry: RegistryServer, name: str
) -> None:
    topics.create(name)
    topics.produce(name, [avro(registry.register(f"{name}-value", ORDER), ORDER, MADE)])
    wrong = {**registry.settings, "url": registry.url.partition("/apis")[0] + "/elsewhere"}
    trigger = InProcessTrigger(stack, name, registry=wrong, format="avro", registry_connection="registry")
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert f"{name} 0 [0, 1): the schema registry {wrong['url']} answered 404: " in (outcome.error or "")
    assert "which is not an answer of a schema registry" in (outcome.error or "")
    assert stored(connection, name) == []


def test_json_by_a_schema_of_the_registry_is_stored_byte_for_byte(
    connection: Connection, registry: RegistryServer, topic: Produce, reading: Reading, name: str
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema_id = registry.register(f"{name}-value", schema, "JSON")
    topic(*(framed(schema_id, text) for text in (b'{"n": 1.0}', b'{"n": "x"}', b"{")))
    trigger = reading(format="json_schema")
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert (outcome.error, outcome.created) == (None, Created(1, 2))
    assert [(row["body"], row["code"]) for row in stored(connection, name)] == [
        ({"n": 1.0}, None),
        (None, "schema-violated"),
        (None, "undecodable"),
    ]


def use_schema(trigger: InProcessTrigger, folder: Path, schema: Mapping[str, Any]) -> None:
    """Write a trigger file that names a file with this JSON Schema, and let the trigger plan by it."""
    (folder / "visit.json").write_text(json.dumps(schema), encoding="utf-8")
    content = {**trigger.definition.model_dump(mode="json", exclude_unset=True), "type": "kafka"}
    (folder / "visits.yaml").write_text(yaml.safe_dump({**content, "json_schema": "visit.json"}), encoding="utf-8")
    found = load_trigger(folder / "visits.yaml")
    assert isinstance(found, KafkaTriggerDefinition)
    trigger.definition = found


def test_plain_json_by_the_schema_of_a_file_is_rejected_with_its_bytes_until_the_schema_allows_it(
    connection: Connection, stack: LocalStack, topic: Produce, *, name: str, tmp_path: Path
) -> None:
    trigger = InProcessTrigger(stack, name)
    use_schema(trigger, tmp_path, {"properties": {"ward": {"type": "string"}}, "required": ["ward"]})
    good, violating = b'{"ward": "west"}', b'{"ward": 7, "n": 1.0}'
    topic(good, violating, b"{")
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert (outcome.error, outcome.created) == (None, Created(1, 2))
    accepted, rejected, malformed = stored(connection, name)
    assert (accepted["body"], accepted["code"]) == ({"ward": "west"}, None)
    assert (rejected["code"], rejected["raw"]) == ("schema-violated", violating)
    assert rejected["detail"] == "the value violates json_schema: the rule /properties/ward/type does not hold"
    assert (malformed["code"], malformed["raw"]) == ("not-json", b"{")
    use_schema(trigger, tmp_path, {"required": ["ward"]})
    assert trigger.plan().batch_id is None  # it has recorded the new schema
    assert revalidate_rejected(connection, [rejected["id"], malformed["id"]]) == [rejected["id"]]
    assert [row["body"] for row in stored(connection, name)] == [{"ward": "west"}, {"ward": 7, "n": 1.0}, None]


SOURCE = """
syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Order {
  message Line { string sku_code = 1; int64 count = 2; }
  string id = 1; google.protobuf.Timestamp at = 2; repeated Line lines = 3; bytes raw = 4; double weight = 5;
}
message Visit { string ward = 1; }
"""
PROTOBUF = [
    (b"\0" + b"\x0a\x01a\x12\x02\x08\x01\x1a\x05\x0a\x01x\x10\x02\x29\0\0\0\0\0\0\xf8\x7f", {
        "id": "a", "at": "1970-01-01T00:00:01Z", "lines": [{"sku_code": "x", "count": "2"}], "raw": "", "weight": "NaN",
    }),
    (b"\x02\x02" + b"\x0a\x01w", {"ward": "w"}),
    (b"\x04\0\0" + b"\x0a\x01x", {"sku_code": "x", "count": "0"}),
]  # fmt: skip


@pytest.mark.parametrize("is_source", [False, True], ids=["as a descriptor", "as a source"])
def test_protobuf_becomes_json_by_the_message_that_its_indexes_name(  # noqa: PLR0917 - fixtures
    connection: Connection, registry: RegistryServer, topic: Produce, reading: Reading, name: str, is_source: bool
) -> None:
    (file,) = [one for one in protobuf._compiled({"schema.proto": SOURCE}) if one.name == "schema.proto"]
    descriptor = b64encode(file.SerializeToString()).decode()
    schema_id = registry.register(f"{name}-value", SOURCE if is_source else descriptor, "PROTOBUF")
    topic(
        *(framed(schema_id, payload) for payload, _ in PROTOBUF),
        framed(schema_id, b"\x02\x0a"),
        framed(schema_id, b"\0\xff"),
    )
    trigger = reading(format="protobuf")
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert (outcome.error, outcome.created) == (None, Created(3, 2))
    rows = stored(connection, name)
    assert [row["body"] for row in rows[:3]] == [value for _, value in PROTOBUF]
    assert [row["code"] for row in rows[3:]] == ["undecodable"] * 2


KEY_SCHEMA = {"type": "object", "properties": {"shop": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("key_format", "schema", "payload", "as_json", "violating", "code"),
    [
        ("protobuf", SOURCE, b"\x02\x02\x0a\x01w", {"ward": "w"}, b"\x02\x0a", "undecodable"),
        ("json_schema", KEY_SCHEMA, b'{"shop": 7}', {"shop": 7}, b'{"shop": "west"}', "schema-violated"),
    ],
    ids=["protobuf", "json_schema"],
)
def test_a_key_becomes_json_by_its_schema_and_a_wrong_key_rejects_its_message(
    connection: Connection,
    registry: RegistryServer,
    topic: Produce,
    reading: Reading,
    *,
    name: str,
    key_format: str,
    schema: Any,
    payload: bytes,
    as_json: dict[str, Any],
    violating: bytes,
    code: str,
) -> None:
    schema_id = registry.register(f"{name}-key", schema, "PROTOBUF" if key_format == "protobuf" else "JSON")
    for key in (framed(schema_id, payload), framed(schema_id, violating), b"plain", None):
        topic(b'{"n": 1}', key=key)
    trigger = reading(key_format=key_format)
    (outcome,) = trigger.ingest_messages(batch(trigger))
    assert (outcome.error, outcome.created) == (None, Created(2, 2))
    first, *wrong, last = stored(connection, name)
    assert (first["body"], first["request"]["key"]) == ({"n": 1}, as_json)
    assert first["request"]["key_schema"] == {"id": schema_id}
    assert [(row["code"], row["raw"]) for row in wrong] == [
        (code, b'{"n": 1}'),
        ("no-schema-id", b'{"n": 1}'),
    ]
    assert (last["body"], last["request"]["key"]) == ({"n": 1}, None)


@pytest.mark.parametrize("submit", ["spark_connect", pytest.param("spark", marks=pytest.mark.long)], indirect=True)
def test_executors_of_spark_decode_and_filter(
    connection: Connection, registry: RegistryServer, topic: Produce, reading: Reading, submit: Submit, *, name: str
) -> None:
    schema_id = registry.register(f"{name}-value", ORDER)
    topic(*(avro(schema_id, ORDER, {**MADE, "id": id_}) for id_ in "abc"), b"rubbish")
    trigger = reading(format="avro", filter={"body:/id": {"not": "b"}})
    batch_id = batch(trigger)
    done = submit(batch_id, **{REGISTRY_VARIABLE: orjson.dumps(registry.settings).decode()})
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (range_,) = batches.load(connection, batch_id).ranges
    assert (range_.created, range_.rejected, range_.filtered) == (2, 1, 1)
    assert [row["body"]["id"] for row in stored(connection, name) if row["body"]] == ["a", "c"]


def test_the_orders_that_the_example_sends_become_work_orders(
    connection: Connection, registry: RegistryServer, reading: Reading, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("send_avro_orders", CHECKOUT / "docs/examples/send_avro_orders.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    trigger = reading(format="avro", key_format="avro")
    monkeypatch.setattr(example, "TOPIC", name)
    assert example.send(dict(trigger.stack.kafka_settings), registry.settings) == 0
    for outcome in trigger.ingest_messages(batch(trigger)):
        assert outcome.error is None
    rows = stored(connection, name)
    assert sorted((row["body"] for row in rows), key=itemgetter("order")) == example.ORDERS
    assert {row["request"]["key"]["customer"] for row in rows} == {0, 1, 2, 3}
