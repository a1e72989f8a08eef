import json
import subprocess
import sys

import pytest
from psycopg.pq import TransactionStatus

from local_stack.stack import LocalStack
from support.runs import finish_all
from support.work_orders import REQUEST, accepted, accepted_range, rejected
from workorders.core.creation.work_orders import create_for
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.items import Item, Rejection
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
VALUE = b'{"id":%d,"text":"' + b"x" * (2 * MIB) + b'"}'
"""Packs into some 24 KiB, so hundreds of them are one step."""
FEW, MANY = 3, 24
ROOM = 24 * MIB
"""Some copies of one value; all of them at once are more than 100 MiB."""


def exported(connection: Connection, name: str) -> str:
    connection.commit()
    return b"".join(work_orders.export_parts(connection, Filter(trigger=name))).decode()


@pytest.mark.parametrize("step", [3, 200])
def test_an_export_has_everything_of_a_work_order_in_the_order_of_creation(
    connection: Connection, trigger: Trigger, name: str, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    monkeypatch.setattr(work_orders, "EXPORT_STEP", step)
    create_for(connection, trigger, [accepted("s", 0, b'{"n":0.1000000000000000000000000000001}')])
    finish_all(connection, name, "failed")
    long = accepted("s", 7, json.dumps({"ä": "ü" * 70_000}).encode())
    create_for(connection, trigger, [rejected("s", 1, b"\xff\n=1"), *accepted_range("s", 2, 7), long])
    text = exported(connection, name).splitlines()
    assert '"n": 0.1000000000000000000000000000001' in text[0]
    objects = [json.loads(line) for line in text]
    assert list(objects[0]) == [
        *("id", "created_at", "trigger", "trigger_type", "workflow", "state", "stream", "position", "reason", "detail"),
        *("raw_base64", "attempts", "error_type", "error", "request", "body"),
    ]
    assert [found["position"] for found in objects] == list(range(8))
    assert (objects[0]["state"], objects[0]["attempts"]) == ("failed", 1)
    assert (objects[1]["reason"], objects[1]["raw_base64"], objects[1]["body"]) == ("not-json", "/wo9MQ==", None)


@pytest.mark.usefixtures("trigger")
def test_an_export_of_nothing_is_empty(connection: Connection, name: str) -> None:
    assert exported(connection, name) == ""


def test_no_transaction_is_open_while_the_caller_has_a_part_and_later_work_orders_are_left_out(
    connection: Connection, trigger: Trigger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_orders, "EXPORT_STEP", 3)
    create_for(connection, trigger, accepted_range("s", 0, 7))
    connection.commit()
    lines: list[int] = []
    for part in work_orders.export_parts(connection, Filter(trigger=name)):
        assert connection.info.transaction_status == TransactionStatus.IDLE
        lines.append(len(part.splitlines()))
        create_for(connection, trigger, accepted_range("late", 100 * len(lines), 100 * len(lines) + 3))
        connection.commit()
    assert lines == [3, 3, 1]


def test_a_step_ends_before_it_has_too_many_bytes_and_a_large_value_is_a_step_of_its_own(
    connection: Connection, trigger: Trigger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_orders, "STEP_BYTES", 2000)
    sizes = [700, 700, 700, 5000, 100, 100, 1700, 300]
    create_for(connection, trigger, [rejected("s", place, b"#" * size) for place, size in enumerate(sizes)])
    connection.commit()
    parts = work_orders.export_parts(connection, Filter(trigger=name))
    assert [len(part.splitlines()) for part in parts] == [2, 1, 1, 3, 1]


@pytest.mark.parametrize("is_input", [True, False], ids=["inputs", "rejected values"])
def test_an_export_of_large_values_holds_one_of_them_at_a_time(
    stack: LocalStack, connection: Connection, trigger: Trigger, *, is_input: bool
) -> None:
    peaks = []
    for count in (FEW, MANY):
        create_for(
            connection,
            trigger,
            [
                accepted("s", place, VALUE % place)
                if is_input
                else Item("s", place, REQUEST, None, Rejection("too-large", "x"), VALUE % place)
                for place in range(count, 2 * count)
            ],
        )
        connection.commit()
        done = subprocess.run(
            [sys.executable, "-m", "support.peak_memory", trigger.name, "export"],
            env=stack.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        size, peak = map(int, done.stdout.split())
        assert size > count * 2 * MIB
        peaks.append(peak)
    assert peaks[1] < peaks[0] + ROOM
