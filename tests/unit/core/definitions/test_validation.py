"""What people read who have made a mistake in a file, whatever kind of file it is."""

import math
from typing import Any

import pytest
from pydantic import BaseModel

from workorders.core.definitions.trigger import trigger_types
from workorders.core.definitions.validation import validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError
from workorders.outbox.relay.definition import RelayDefinition

RIGHT: dict[str, dict[str, Any]] = {
    "kafka": {"name": "orders", "type": "kafka", "workflow": "ship", "topics": ["orders"]},
    "webhook": {"name": "shop", "type": "webhook", "workflow": "ship", "authentication": "public"},
    "cron": {"name": "nightly", "type": "cron", "workflow": "ship", "schedule": "@daily"},
    "manual": {"name": "refunds", "type": "manual", "workflow": "refund"},
    "workflow": {"name": "ship", "callable": "shop.orders:ship"},
    "outbox": {},
}
NAME = "name: expected up to 100 small letters, digits, - and _, beginning with a letter or digit, got "
SECONDS = "expected a number of seconds or a text such as 500ms, 2s, 1m or 1h"
FUNCTION = "callable: expected a function as package.module:function, got "
BYTES = "expected a whole number of bytes or a text such as 64MiB"
LETTERS = "of a-z, A-Z, 0-9, '.', '_' and '-'"

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("kafka", {"name": "Orders"}, f"{NAME}'Orders'."),
    ("kafka", {"name": 7}, f"{NAME}7."),
    ("kafka", {"description": 7}, "description: expected a text, got 7; put it in quotes."),
    ("kafka", {"tags": "a"}, "tags: expected a list, got 'a'."),
    ("kafka", {"tags": [1]}, "tags.0: expected a text, got 1; put it in quotes."),
    ("kafka", {"max_mesages": 5}, "max_mesages: there is no such field; did you mean max_messages?"),
    ("kafka", {"sequence": {"numbr": 1}}, "sequence.numbr: there is no such field; did you mean number?"),
    ("kafka", {"topics": []}, r"topics: expected a list of topics such as [orders] or ['^orders\.'], got []."),
    ("kafka", {"topics": [7]}, "topics: expected a topic's name, in quotes if it is a number, got 7."),
    ("kafka", {"topics": ["a", "a"]}, "topics: expected each entry once, got ['a', 'a']."),
    ("kafka", {"max_messages": 0}, "max_messages: expected a whole number from 1 to 10000000, got 0."),
    ("kafka", {"max_messages": True}, "max_messages: expected a whole number from 1 to 10000000, got True."),
    ("kafka", {"max_messages": 1.5}, "max_messages: expected a whole number from 1 to 10000000, got 1.5."),
    ("kafka", {"max_messages": None}, "max_messages: expected a whole number from 1 to 10000000, got None."),
    ("kafka", {"max_bytes": "64MiBs"}, f"max_bytes: {BYTES}, got '64MiBs'."),
    ("kafka", {"max_bytes": math.inf}, f"max_bytes: {BYTES}, got inf."),
    ("kafka", {"max_bytes": 1}, f"max_bytes: {BYTES}, at least 1024 bytes, got 1."),
    ("webhook", {"max_body_bytes": "33MiB"}, f"max_body_bytes: {BYTES}, at most 33554432 bytes, got '33MiB'."),
    ("kafka", {"max_wait": "soon"}, f"max_wait: {SECONDS}, got 'soon'."),
    ("kafka", {"poll_interval": "50ms"}, f"poll_interval: {SECONDS}, at least 0.1 s, got '50ms'."),
    ("kafka", {"headers": []}, "headers: expected all, none or a list of header names such as [traceparent], got []."),
    (
        "kafka",
        {"tasks": {"commit_offsets": {"pool": ""}}},
        "tasks.commit_offsets.pool: expected the name of an Airflow pool, got ''.",
    ),
    ("cron", {"tasks": {"plan": {}}}, "tasks: expected some of the tasks create_work_order, got plan."),
    ("webhook", {"tasks": {"plan": {}}}, "tasks: expected no tasks, because there is no Dag, got plan."),
    ("kafka", {"spark": 3}, "spark: expected a mapping, got 3."),
    ("kafka", {"spark": {"max_writers": 0}}, "spark.max_writers: expected a whole number from 1 to 10000, got 0."),
    ("kafka", {"idempotency": {"key": "key"}}, "idempotency.window: this field is required."),
    (
        "kafka",
        {"idempotency": {"key": "key", "window": "1s"}},
        "idempotency.window: expected a number of seconds or a text such as 500ms, 2s, 1m or 1h, at least 60 s, "
        "got '1s'.",
    ),
    (
        "kafka",
        {"sequence": {"key": "key", "number": "body:/n", "start": True}},
        "sequence.start: expected a whole number, or first, got True.",
    ),
    ("webhook", {"headers": [""]}, "headers: expected the name of a header such as X-Signature, got ''."),
    ("webhook", {"reply_timeout": "6m"}, f"reply_timeout: {SECONDS}, at most 300 s, got '6m'."),
    ("webhook", {"enabled": "perhaps"}, "enabled: expected true or false, got 'perhaps'."),
    ("cron", {"input": {1: 2}}, "input: expected a mapping such as {region: north}, got {1: 2}."),
    ("manual", {"example": [1]}, "example: expected a mapping such as {order: 17}, got [1]."),
    ("workflow", {"dag_id": "ship"}, "expected either callable or dag_id."),
    ("workflow", {"context_key": None}, "expected dag_id with context_key; a function always gets its context."),
    ("workflow", {"context_key": " "}, "context_key: expected a name such as workorders_context, or null, got ' '."),
    ("workflow", {"callable": "shop.orders.ship"}, f"{FUNCTION}'shop.orders.ship'."),
    ("workflow", {"callable": "shop.orders:Orders.ship"}, f"{FUNCTION}'shop.orders:Orders.ship'."),
    (
        "workflow",
        {"retries": {"after": ["success"]}},
        "retries.after: expected a list of some of failed, crashed, killed, lost, exception, got ['success'].",
    ),
    (
        "workflow",
        {"retries": {"after": ["lost"] * 2}},
        "retries.after: expected each entry once, got ['lost', 'lost'].",
    ),
    (
        "workflow",
        {"carry_headers": "traceparent"},
        "carry_headers: expected a list of header names such as [traceparent], got 'traceparent'.",
    ),
    (
        "workflow",
        {"concurrency": 0},
        "concurrency: expected a whole number from 1 to 1000000000, or null for no limit, got 0.",
    ),
    (
        "workflow",
        {"retention": {"delete_after": "many"}},
        "retention.delete_after: expected a number of seconds or a text such as 500ms, 2s, 1m or 1h, got 'many'.",
    ),
    ("workflow", {"retries": 3}, "retries: expected a mapping, got 3."),
    ("outbox", {"shards": 1000}, "shards: expected a whole number from 1 to 16, got 1000."),
    ("outbox", {"kafka_connection": ""}, "kafka_connection: expected the id of an Airflow connection, got ''."),
    (
        "outbox",
        {"transactional_id_prefix": "Orders & more"},
        f"transactional_id_prefix: expected the beginning of an id (1 to 100 {LETTERS}), got 'Orders & more'.",
    ),
    ("outbox", {"topics": {"a/b": {}}}, f"topics.a/b.[key]: expected a topic's name (1 to 249 {LETTERS}), got 'a/b'."),
    (
        "outbox",
        {"topics": {"orders": {"on_rejected": "drop"}}},
        "topics.orders.on_rejected: expected hold or set_aside, got 'drop'.",
    ),
]


@pytest.mark.parametrize(("kind", "fields", "sentence"), WRONG, ids=[sentence for *_, sentence in WRONG])
def test_an_error_names_the_file_and_the_field_and_what_belongs_there(
    kind: str, fields: dict[str, Any], sentence: str
) -> None:
    models: dict[str, type[BaseModel]] = {"workflow": WorkflowDefinition, "outbox": RelayDefinition}
    with pytest.raises(ConfigurationError) as refused:
        validate({**RIGHT[kind], **fields}, models.get(kind) or trigger_types()[kind].load(), where="a.yaml")
    assert str(refused.value).splitlines()[-1] == f"a.yaml: {sentence}"


def test_every_wrong_field_has_its_line() -> None:
    with pytest.raises(ConfigurationError) as refused:
        validate(
            {**RIGHT["workflow"], "concurrency": 0, "owner": 3, "max_log_bytes": -1}, WorkflowDefinition, where="a.yaml"
        )
    assert [line.split(": ")[1] for line in str(refused.value).splitlines()] == [
        "owner",
        "concurrency",
        "max_log_bytes",
    ]
