"""The benchmarks' messages are as they are described."""

import json

from benchmarks import messages, plain_table


def test_values_are_json_objects_of_about_230_bytes() -> None:
    values = [messages.value(number) for number in range(0, 1_000_000, 9_973)]
    assert all(isinstance(json.loads(value), dict) for value in values)
    assert all(220 <= len(value) <= 240 for value in values)


def test_values_differ() -> None:
    assert len({messages.value(number) for number in range(1_000)}) == 1_000


def test_record_batches_hold_every_offset_once_and_in_order() -> None:
    batches = messages.record_batches("observations", 3, 25_000)
    assert [batch.num_rows for batch in batches] == [10_000, 10_000, 5_000]
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(25_000))


def test_no_message_is_rejected() -> None:
    assert all(item.rejection is None for item in messages.items("observations", 0, 1_000, "observations/0"))


def test_plain_rows_have_the_values_of_the_items() -> None:
    items = list(messages.items("observations", 1, 10, ""))
    rows = plain_table.rows("observations", 1, 10)
    assert [(offset, body, request) for _, _, _, offset, body, request in rows] == [
        (item.position, item.body, item.request) for item in items
    ]
    assert len({id_ for id_, *_ in rows}) == 10
