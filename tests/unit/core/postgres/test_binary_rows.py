"""The rows are compared with Postgres's documented binary format here, and copied into a real one elsewhere."""

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from workorders.core.postgres import binary_rows

ID = bytes(range(16))
optional_bytes = st.none() | st.binary(max_size=50)


def fields(row: bytes) -> list[bytes | None]:
    """Read a row back: its number of fields, and each field's length and bytes."""
    (count,) = struct.unpack_from(">h", row)
    place, found = 2, []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", row, place)
        place += 4
        found.append(None if length < 0 else row[place : place + length])
        place += max(length, 0)
    assert place == len(row)
    return found


@given(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.integers(1, 2**31 - 1))
def test_a_work_order_row_has_a_field_a_column(position: int | None, stream_id: int | None) -> None:
    row = binary_rows.work_order(ID, position, binary_rows.work_order_suffix(7, 8, stream_id, "pending"))
    id_, place, trigger_id, workflow_id, stream, state = fields(row)
    assert id_ == ID
    assert place == (None if position is None else struct.pack(">q", position))
    assert (trigger_id, workflow_id) == (struct.pack(">i", 7), struct.pack(">i", 8))
    assert stream == (None if stream_id is None else struct.pack(">i", stream_id))
    assert state == b"pending"
    assert len(binary_rows.WORK_ORDER_COLUMNS) == 6


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_a_dataclip_row_carries_both_texts_as_jsonb_of_version_1(body: bytes, request: bytes) -> None:
    assert fields(binary_rows.dataclip(ID, body, request)) == [ID, b"\1" + body, b"\1" + request]
    assert len(binary_rows.DATACLIP_COLUMNS) == 3


@given(optional_bytes)
def test_a_rejection_row_keeps_the_raw_bytes_and_tells_null_from_empty(raw: bytes | None) -> None:
    row = binary_rows.rejection(ID, "not-json", "no value", b"{}", raw)
    assert fields(row) == [ID, b"not-json", b"no value", b"\1{}", raw]
    assert len(binary_rows.REJECTION_COLUMNS) == 5


@given(st.text(st.characters(exclude_categories=[])))
@example("\0")
@example("\ud800")
def test_no_detail_breaks_a_row(detail: str) -> None:
    written = fields(binary_rows.rejection(ID, "code", detail, b"{}", None))[2]
    assert written is not None
    assert b"\0" not in written
    written.decode("utf-8")
