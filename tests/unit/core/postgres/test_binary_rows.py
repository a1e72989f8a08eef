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


@given(st.none() | st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_row_of_a_key_has_a_field_per_column_and_yields_what_it_was_made_of(
    position: int | None, stream_id: int, expires_at: int
) -> None:
    key, stream = bytes(range(16, 32)), None if position is None else stream_id
    made = binary_rows.keyed(key, ID, position, stream)
    assert fields(made + binary_rows.key_row_suffix(7, expires_at)) == [
        key,
        ID,
        None if position is None else struct.pack(">q", position),
        None if stream is None else struct.pack(">i", stream),
        struct.pack(">i", 7),
        struct.pack(">q", expires_at),
    ]
    assert len(binary_rows.KEYED_COLUMNS) == 6
    assert (made[binary_rows.KEY_OF], made[binary_rows.ID_OF], made[binary_rows.SOURCE_OF]) == (
        key,
        ID,
        binary_rows.source(position, stream),
    )
    assert list(binary_rows.sources([made])) == [(position, stream)]


@given(st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))))
def test_rows_of_keys_sort_by_key_then_by_work_order(pairs: list[tuple[bytes, bytes]]) -> None:
    made = sorted(binary_rows.keyed(key, id_, place, 1) for place, (key, id_) in enumerate(pairs))
    assert [(row[binary_rows.KEY_OF], row[binary_rows.ID_OF]) for row in made] == sorted(pairs)
