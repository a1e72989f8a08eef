"""The rows are compared with Postgres's documented binary format here, and copied into a real one elsewhere."""

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from workorders.core.postgres import binary_rows

ID = bytes(range(16))


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


@given(st.text(st.characters(exclude_categories=[])))
@example("\0")
@example("\ud800")
def test_no_detail_breaks_a_row(detail: str) -> None:
    written = fields(binary_rows.rejection(ID, "code", detail, b"{}", None))[2]
    assert written is not None
    assert b"\0" not in written
    written.decode("utf-8")
