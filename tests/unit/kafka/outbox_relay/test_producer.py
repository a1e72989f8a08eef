"""Headers as PostgreSQL may hold them."""

from typing import Any

import pytest

from workorders.kafka.outbox_relay.producer import record_headers
from workorders.outbox.store.rows import OutboxRow, total_bytes


@pytest.mark.parametrize(
    ("value", "sent", "size"),
    [
        ("text", "text", 4),
        (None, None, 0),
        ({"base64": "/w=="}, b"\xff", 4),
        ({"base64": "/w==", "number": 1}, b"\xff", 4),
        ({"base64": 1234}, b"\xd7m\xf8", 4),
    ],
    ids=str,
)
def test_a_header_is_sent_and_counted_whatever_is_next_to_its_value(value: Any, sent: Any, size: int) -> None:
    assert record_headers([["name", value]], None, None) == [("name", sent)]
    row = OutboxRow(1, "topic", None, None, [["name", value]], None, None, None, 0)
    assert total_bytes([row]) == len("name") + size
