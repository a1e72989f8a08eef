from dataclasses import replace

import pytest

from demo.comparison import Comparison, compare
from demo.database import WorkOrder
from demo.topic import Received

TOPIC = "health.events"
MESSAGE = Received(b"p\xff", b'{"a": 1.50}', [("h", b"\x00"), ("h", None), ("h", b"x")], 1_000_000)
TOMBSTONE = Received(None, None, [], 1_000_000)
HEADERS = [["h", {"base64": "AA=="}], ["h", None], ["h", "x"]]


def order(partition: int = 0, offset: int = 7) -> WorkOrder:
    request = {
        "topic": TOPIC,
        "partition": partition,
        "offset": offset,
        "key": {"base64": "cP8="},
        "timestamp": 1_000_000,
        "headers": HEADERS,
    }
    return WorkOrder(offset, "pending", 1002.5, request, {"a": 1.5}, None, None)


def rejected(reason: str | None = "null-value", raw: bytes | None = None) -> WorkOrder:
    request = {"topic": TOPIC, "partition": 0, "offset": 8, "key": None, "timestamp": 1_000_000, "headers": []}
    return WorkOrder(8, "rejected", 1001.0, request, None, reason, raw)


def test_one_work_order_for_each_message_leaves_nothing_to_report_but_the_seconds() -> None:
    messages = {(0, 7): MESSAGE, (0, 8): TOMBSTONE}
    assert compare(TOPIC, messages, [order(), rejected()]) == Comparison([], [], [], [], [1.0, 2.5])


def test_a_message_without_a_work_order_is_missing() -> None:
    assert compare(TOPIC, {(0, 7): MESSAGE, (1, 7): MESSAGE}, [order()]).missing == [(1, 7)]


def test_a_second_work_order_of_a_message_is_a_duplicate() -> None:
    found = compare(TOPIC, {(0, 7): MESSAGE}, [order(), order()])
    assert (found.duplicates, found.missing, found.strangers) == ([(0, 7)], [], [])


def test_a_work_order_of_a_message_that_readers_do_not_get_is_a_stranger() -> None:
    assert compare(TOPIC, {}, [order()]).strangers == [(0, 7)]


def with_request(name: str, value: object) -> WorkOrder:
    right = order()
    return replace(right, request={**right.request, name: value})


@pytest.mark.parametrize(
    "wrong",
    [
        replace(order(), position=8),
        replace(order(), body={"a": 1.51}),
        replace(order(), reason="not-json"),
        replace(order(), state="rejected", body=None, reason="not-json", raw=b"{"),
        with_request("topic", "another"),
        with_request("key", "p"),
        with_request("timestamp", None),
        with_request("headers", HEADERS[::-1]),
        with_request("headers", HEADERS[:2]),
    ],
)
def test_a_work_order_that_differs_from_its_message_is_altered(wrong: WorkOrder) -> None:
    assert compare(TOPIC, {(0, 7): MESSAGE}, [wrong]).altered == [(0, 7)]


@pytest.mark.parametrize("wrong", [rejected(reason=None), rejected(raw=b""), replace(rejected(), state="pending")])
def test_a_tombstone_must_be_rejected_with_a_reason_and_without_bytes(wrong: WorkOrder) -> None:
    assert compare(TOPIC, {(0, 8): TOMBSTONE}, [wrong]).altered == [(0, 8)]
