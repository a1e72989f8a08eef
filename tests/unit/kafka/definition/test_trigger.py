import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest

from support.definitions import define
from workorders.core.definitions.loading import load_trigger, parse
from workorders.core.definitions.validation import validate
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

FIVE_LINES = """\
name: orders
type: kafka
workflow: ship
topics: [orders]
description: Orders from the shop
"""


def load(more: str = "") -> KafkaTriggerDefinition:
    content = parse(FIVE_LINES, where="")[0] | (parse(more, where="")[0] or {})
    return validate(content, KafkaTriggerDefinition, where="orders.yaml")


def complaint(more: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        load(more)
    return str(refused.value)


def test_five_lines_are_enough() -> None:
    found = load()
    assert (found.workflow, found.topics, found.consumer_group) == ("ship", ("orders",), "workorders-orders")


@pytest.mark.parametrize(
    ("more", "field", "expected"),
    [
        ("max_bytes: 64MiB", "max_bytes", 67_108_864),
        ("max_bytes: 1.5MiB", "max_bytes", 1_572_864),
        ("max_bytes: 5MB", "max_bytes", 5_000_000),
        ("max_bytes: 4096", "max_bytes", 4096),
        ("max_message_bytes: 32MiB", "max_message_bytes", 33_554_432),
        ("poll_interval: 500ms", "poll_interval", 0.5),
        ("poll_interval: 0.1", "poll_interval", 0.1),
        ("max_wait: 2s", "max_wait", 2.0),
        ("max_wait: 1m", "max_wait", 60.0),
        ("max_wait: 2h", "max_wait", 7200.0),
        ("max_wait: 1d", "max_wait", 86_400.0),
        ("rate_limit_per_second: 0.5", "rate_limit_per_second", 0.5),
        ("rate_limit_per_second: null", "rate_limit_per_second", None),
        ("headers: none", "headers", "none"),
        ("headers: [traceparent, b]", "headers", ("traceparent", "b")),
        ("tombstones: accept", "tombstones", "accept"),
        ("max_rejected_share: 0.5", "max_rejected_share", 0.5),
        ("max_rejected_share: null", "max_rejected_share", None),
        ("alert_after: 30m", "alert_after", 1800.0),
        ("alert_after: 0", "alert_after", 0.0),
        ("notify: [shop.alerts.page, shop.alerts.mail]", "notify", ("shop.alerts.page", "shop.alerts.mail")),
        ("consumer_group: old-group", "consumer_group", "old-group"),
        ("consumer_group: ''", "consumer_group", "workorders-orders"),
        ("{min_messages: 500, max_wait: 30s}", "min_messages", 500),
        ("topics: [orders, '^orders\\..*']", "topics", ("orders", r"^orders\..*")),
    ],
)
def test_a_field_takes_its_forms(more: str, field: str, expected: object) -> None:
    assert getattr(load(more), field) == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("committed", "committed"),
        ("2026-03-01T00:00:00+01:00", 1_772_319_600_000),
        ("'2026-03-01T00:00:00+01:00'", 1_772_319_600_000),
        ("2026-03-01 00:00:00+01:00", 1_772_319_600_000),
        ("2026-02-28T23:00:00.250Z", 1_772_319_600_250),
        ("1772319600000", 1_772_319_600_000),
        ("'1772319600000'", 1_772_319_600_000),
    ],
)
def test_starting_offsets_take_a_policy_or_a_time(form: str, expected: str | int) -> None:
    assert load(f"starting_offsets: {form}").starting_offsets == expected


def test_a_time_is_understood_when_python_gives_it() -> None:
    time = datetime(2026, 2, 28, 23, tzinfo=UTC)
    assert define("orders", starting_offsets=time).starting_offsets == 1_772_319_600_000


@pytest.mark.parametrize("form", ["latest", "2026-02-28T23:00:00.251Z"])
def test_a_definition_survives_the_way_through_the_database(form: str) -> None:
    before = load(f"{{starting_offsets: '{form}', headers: [a], spark: {{conf: {{spark.locality.wait: 0s}}}}}}")
    assert KafkaTriggerDefinition.model_validate_json(before.model_dump_json()) == before


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("topics: orders", r"topics: expected a list of topics such as [orders] or ['^orders\.'], got 'orders'."),
        (
            "topics: ['a b']",
            "topics: expected a topic's name (1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..') "
            "or a regular expression that begins with ^, got 'a b'.",
        ),
        (
            "topics: ['^a(']",
            "topics: expected a regular expression after the ^, got '^a(' "
            "(missing ), unterminated subpattern at position 2).",
        ),
        (
            "idempotency: {key: body, window: 1h, on_duplicate: ignore}",
            "idempotency: expected on_duplicate: reject, because every message has a work order; a replay could not "
            "tell an ignored message from a lost one.",
        ),
        (
            "{virtual_partitions: 4, sequence: {key: 'body:/id', number: 'body:/number'}}",
            "virtual_partitions: expected 1 with a sequence, because virtual partitions are written in any order, "
            "got 4.",
        ),
        (
            "rate_limit_per_second: 0",
            "rate_limit_per_second: expected a number of messages per second above 0, or null for no limit, got 0.",
        ),
        (
            "headers: some",
            "headers: expected all, none or a list of header names such as [traceparent], got 'some'.",
        ),
        *(
            (
                f"max_rejected_share: {form}",
                "max_rejected_share: expected a share above 0 and below 1 such as 0.5, or null for no limit, "
                f"got {shown}.",
            )
            for form, shown in (("0", "0"), ("1", "1"), ("'50 %'", "'50 %'"), ("true", "True"), (".nan", "nan"))
        ),
        *(
            (
                f"notify: {form}",
                f"notify: expected a list of names in modules such as [shop.alerts.page], got {shown}.",
            )
            for form, shown in (
                ("shop.alerts.page", "'shop.alerts.page'"),
                ("[page]", "['page']"),
                ("['shop.alerts.page()']", "['shop.alerts.page()']"),
                ('["shop.alerts.page\\n"]', r"['shop.alerts.page\n']"),
                ("[7]", "[7]"),
            )
        ),
        ("consumer_group: 7", "consumer_group: expected the id of a consumer group, got 7."),
        ("min_messages: 5", "min_messages: expected max_wait, such as 30 s, with a minimum above 1, got 5 alone."),
        (
            "{min_messages: 5, max_messages: 4, max_wait: 1}",
            "min_messages: expected at most max_messages (4), got 5.",
        ),
    ],
)
def test_a_wrong_value_is_answered_with_the_field_and_the_right_form(more: str, sentence: str) -> None:
    assert complaint(more) == f"orders.yaml: {sentence}"


@pytest.mark.parametrize(
    "form",
    ["newest", "2026-03-01", "'2026-03-01'", "12345", "2026-03-01T00:00:00", "1969-12-31T00:00:00Z", "true", "[a]"],
)
def test_starting_offsets_that_could_mean_anything_are_refused(form: str) -> None:
    assert complaint(f"starting_offsets: {form}").startswith(
        "orders.yaml: starting_offsets: expected earliest, latest, committed, an ISO 8601 time of the years 2002 to "
        "2199 with its UTC offset such as 2026-03-01T00:00:00+01:00, or 13 digits of Unix time in milliseconds"
    )


@pytest.mark.parametrize(
    ("form", "is_taken"),
    [
        ("2001-12-31T23:59:59Z", False),
        ("2002-01-01T00:00:00+14:00", True),
        ("2199-12-31T23:59:59-12:00", True),
        ("2200-01-01T00:00:00Z", False),
    ],
)
def test_the_published_schema_takes_the_times_that_a_trigger_takes(form: str, *, is_taken: bool) -> None:
    field = KafkaTriggerDefinition.model_json_schema()["properties"]["starting_offsets"]
    assert jsonschema.Draft202012Validator(field).is_valid(form) is is_taken
    try:
        define("orders", starting_offsets=form)
    except ValueError:
        assert not is_taken
    else:
        assert is_taken


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ("spark.ssl.keyPassword: hunter2", "spark.ssl.keyPassword may carry a secret"),
        ("spark.driver.extraJavaOptions: -Dpassword=hunter2", "spark.driver.extraJavaOptions may carry a secret"),
        ("spark.kafka.clusters.a.sasl.token.mechanism: x", "may carry a secret"),
        ("spark.kubernetes.driverEnv.URL: 'postgresql://ann:hunter2@db/orders'", "driverEnv.URL may carry a secret"),
        ("spark.yarn.appMasterEnv.URL_FILE: 'postgresql://ann:hunter2@db/orders'", "URL_FILE may carry a secret"),
        ("spark.executorEnv.KAFKA_PASSWORD: hunter2", "spark.executorEnv.KAFKA_PASSWORD may carry a secret"),
        ("spark.kafka.group.id: mine", "spark.kafka.group.id would break exactly-once or the order of messages"),
        ("spark.x.failOnDataLoss: false", "spark.x.failOnDataLoss would break exactly-once or the order of messages"),
        ("spark.x.minPartitions: 8", "spark.x.minPartitions would break exactly-once or the order of messages"),
        ("spark.master: local", "spark.master cannot be set here; it belongs to the Spark connection"),
        ("kafka.group.id: mine", "expected names of settings that begin with spark., got 'kafka.group.id'"),
        ("spark.a: [1]", "expected a text, a whole number, true or false for spark.a"),
    ],
)
def test_spark_settings_that_leak_or_break_the_promises_are_refused(conf: str, reason: str) -> None:
    sentence = complaint(f"spark: {{conf: {{{conf}}}}}")
    assert sentence.startswith("orders.yaml: spark.conf: ")
    assert reason in sentence
    assert "hunter2" not in sentence


def test_spark_settings_that_name_the_place_of_a_secret_are_accepted() -> None:
    settings = {
        "spark.kubernetes.driver.secretKeyRef.WORKORDERS_DATABASE_URL": "workorders-secret:url",
        "spark.kubernetes.driver.secrets.workorders": "/etc/workorders",
        "spark.kubernetes.executor.secrets.kafka-token": "/etc/kafka",
        "spark.kubernetes.authenticate.submission.oauthTokenFile": "/var/run/secrets/token",
        "spark.yarn.appMasterEnv.WORKORDERS_KAFKA_FILE": "/etc/workorders/kafka-password.json",
    }
    assert load("spark: {conf: " + json.dumps(settings) + "}").spark.conf == settings


def test_a_format_of_a_registry_needs_the_connection_of_one() -> None:
    assert "the Airflow connection of a schema registry, which avro needs" in complaint("format: avro")
    assert "which protobuf needs" in complaint("key_format: protobuf")
    assert "a format or a key_format that needs a schema registry, got none" in complaint("registry_connection: sr")
    assert "expected json, cloudevents, avro, protobuf or json_schema, got 'xml'" in complaint("format: xml")
    assert "expected all with format: cloudevents" in complaint("{format: cloudevents, headers: none}")


def test_a_json_schema_is_read_from_a_file_beside_the_trigger_and_stored_whole(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"required": ["id"]}')
    (tmp_path / "orders.yaml").write_text(f"{FIVE_LINES}json_schema: order.json\n")
    found = load_trigger(tmp_path / "orders.yaml")
    assert isinstance(found, KafkaTriggerDefinition)
    assert found.json_schema == {"required": ["id"]}
    assert KafkaTriggerDefinition.model_validate(found.model_dump(mode="json")) == found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("missing.json", "the path of a JSON Schema file, got missing.json"),
        ("[1]", "the path of a JSON Schema file, or a JSON Schema"),
        ("{type: nonsense}", "a JSON Schema that refers to nothing outside itself"),
        ("{$ref: 'http://127.0.0.1:1/schema'}", "a JSON Schema that refers to nothing outside itself"),
    ],
)
def test_a_json_schema_that_cannot_be_used_is_refused(given: str, words: str) -> None:
    assert words in complaint(f"json_schema: {given}")
    assert "it is for format: json, got avro" in complaint(
        "{format: avro, registry_connection: sr, json_schema: {type: object}}"
    )


def test_a_trigger_cannot_read_its_own_dead_letters() -> None:
    assert load("dead_letter_topic: orders.dead").dead_letter_topic == "orders.dead"
    assert "which orders names" in complaint("dead_letter_topic: orders")
    assert r"which ^ord.* names" in complaint("{topics: ['^ord.*'], dead_letter_topic: orders.dead}")
    assert "expected a topic's name" in complaint("dead_letter_topic: '^dead'")
