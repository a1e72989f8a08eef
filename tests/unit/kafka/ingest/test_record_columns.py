"""Records by column give the same items, and the same bytes of COPY, as record by record."""

import subprocess
import sys
from itertools import islice

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.record_batches import record_batch
from unit.kafka.ingest.test_record_mapping import STREAM, filtering, mappings, record, records
from workorders.core.creation.json_validation import LONG_RUN_OF_DIGITS, needs_slow_check
from workorders.core.ids import increasing_ids
from workorders.core.items import Item, Rejection
from workorders.core.postgres import binary_rows
from workorders.kafka.definition.filter import MessageFilter
from workorders.kafka.formats.decoded import Decoded
from workorders.kafka.formats.payloads import Payloads
from workorders.kafka.ingest import record_columns
from workorders.kafka.ingest.record_columns import BLOCK_RECORDS, RecordBlock, blocks
from workorders.kafka.ingest.record_mapping import FILTERED, RecordMapping
from workorders.kafka.partitions import Record

ACCEPTED, REJECTED = (binary_rows.work_order_suffix(1, 2, 3, state) for state in ("pending", "rejected"))


def rows_of_items(items: list[Item], ids: list[bytes]) -> tuple[bytes, bytes]:
    """Return the rows of work orders and dataclips, encoded one by one."""
    pairs = list(zip(ids, items, strict=True))
    return (
        b"".join(
            binary_rows.work_order(id_, item.position, REJECTED if item.body is None else ACCEPTED)
            for id_, item in pairs
        ),
        b"".join(binary_rows.dataclip(id_, item.body, item.request) for id_, item in pairs if item.body is not None),
    )


def rows_of_blocks(found: list[RecordBlock], ids: list[bytes]) -> tuple[bytes, bytes]:
    """Return the same rows, encoded by column."""
    rest = iter(ids)
    given_ids = [list(islice(rest, len(block))) for block in found]
    pairs = list(zip(given_ids, found, strict=True))
    return (
        b"".join(b"".join(block.work_orders(own, ACCEPTED, REJECTED)) for own, block in pairs),
        b"".join(b"".join(block.dataclips(own)) for own, block in pairs),
    )


def check(mapping: RecordMapping, many: list[Record], columns: pyarrow.RecordBatch | None = None) -> list[RecordBlock]:
    """Compare both ways for records, and return their blocks."""
    mapped = [mapping.map_record(one, STREAM) for one in many]
    items = [item for item in mapped if item.rejection is not FILTERED]
    found = list(blocks(mapping, record_batch(many) if columns is None else columns, STREAM))
    assert [offset for block in found for offset in block.positions] == [one.offset for one in many]
    assert sum(block.filtered for block in found) == len(many) - len(items)
    found = [block for block in found if len(block)]
    ids = list(islice(increasing_ids(), len(items)))
    assert [item for block in found for item in block] == items
    assert rows_of_blocks(found, ids) == rows_of_items(items, ids)
    for block in found:
        own = list(block)
        assert block.size == sum(len(item.request) + len(item.body or item.raw or b"") for item in own)
        assert {row for row, item in enumerate(own) if item.rejection} <= set(block.odd)
        assert all(own[row] == item for row, item in block.odd.items())
    return found


@given(st.lists(records, max_size=12), mappings, st.integers(0, 3))
def test_both_ways_give_the_same_bytes(many: list[Record], mapping: RecordMapping, skipped: int) -> None:
    check(mapping, many)
    check(mapping, many[skipped:], record_batch(many).slice(skipped))


tagged = st.lists(
    st.tuples(st.sampled_from(["a", "A", "b", "c"]), st.none() | st.sampled_from([b"1", b"", b"x", b"\xff", b"a\0"])),
    max_size=4,
)


@given(st.lists(st.builds(Record._replace, records, headers=tagged), max_size=12), filtering, st.integers(0, 3))
def test_both_ways_leave_out_the_same_records(many: list[Record], mapping: RecordMapping, skipped: int) -> None:
    check(mapping, many)
    check(mapping, many[skipped:], record_batch(many).slice(skipped))


def test_blocks_of_few_taken_records_stand_for_all_that_were_read() -> None:
    mapping = RecordMapping(filter=MessageFilter.parse({"header:h": "ours"}))
    many = [record(offset=offset, headers=[("h", b"ours" if offset % 100 == 50 else b"no")]) for offset in range(1000)]
    (taken, rest) = blocks(mapping, record_batch(many), STREAM)
    assert (len(taken), taken.filtered, taken.last) == (10, 941, 950)
    assert (len(rest), rest.filtered, rest.last) == (0, 49, 999)
    assert taken.ascends_within(0, 951)
    assert rest.ascends_within(951, 1000)
    assert not rest.ascends_within(952, 1000)
    assert not rest.ascends_within(951, 999)


class Prefixed(Payloads):
    """Decodes what begins with a plus, and rejects the rest; keys in the same way."""

    def decode_value(self, _topic: str, payload: bytes | None, _headers: object) -> Decoded | Rejection | None:
        return None if payload is None else self.decode_key(_topic, payload)

    def decode_key(self, _topic: str, payload: bytes) -> Decoded | Rejection:
        if not payload.startswith(b"+"):
            return Rejection("undecodable", "the value does not begin with a plus")
        return Decoded(payload[1:], None if self.registry is None else self.registry.encode())


prefixed = st.builds(
    record,
    key=st.sampled_from([None, b"key", b'+"key"', b"+7", b"+"]),
    value=st.sampled_from([b'+{"a":1}', b'+{"b":"c"}'])
    | st.sampled_from([None, b"{}", b"+[]", rb'+{"a":"\u0000"}', b"+"]),
    offset=st.integers(0, 2**63 - 1),
)


@given(
    st.lists(prefixed, max_size=8),
    st.sampled_from([None, '{"id":1}']),
    st.sampled_from(["text", "avro"]),
    st.sampled_from([100, 1_000_000]),
)
def test_both_ways_decode_to_the_same_bytes(
    many: list[Record], schema: str | None, key_format: str, max_bytes: int
) -> None:
    check(RecordMapping(payloads=Prefixed("avro", key_format, schema, None), max_message_bytes=max_bytes), many)


plain_keys = st.from_regex(rb"[ -~]{0,12}", fullmatch=True)
ordinary = st.builds(
    record,
    key=st.none() | plain_keys,
    value=st.binary(max_size=12).map(lambda name: b'{"a":"%b"}' % name.hex().encode()),
    offset=st.integers(0, 2**63 - 1),
    headers=st.just([("content-type", b"json")]) | st.just([]),
)


@given(st.lists(ordinary, max_size=20), st.lists(records, max_size=2), mappings)
def test_a_few_odd_records_among_ordinary_ones_give_the_same_bytes(
    many: list[Record], odd: list[Record], mapping: RecordMapping
) -> None:
    for place, one in enumerate(odd):
        many.insert(place * 5, one._replace(partition=0))
    check(mapping, many)


@pytest.mark.parametrize("byte", range(256))
@pytest.mark.parametrize("form", ["%b", "a%b", "%bz", "a%bz"])
def test_a_key_with_any_byte_gives_the_same_bytes(byte: int, form: str) -> None:
    check(RecordMapping(), [record(key=form.encode() % bytes([byte])), record(key=b"plain")])


EDGE_VALUES = [
    b"",
    b" ",
    b"{}",
    b" {} ",
    b"[]",
    b"null",
    b"1",
    b'{"a":1,"a":2}',
    b"\xef\xbb\xbf{}",
    b'{"a":"\xff"}',
    rb'{"a":"\u0000"}',
    rb'{"a":"\\u0000"}',
    rb'{"a":"\u0041\ud800"}',
    b'{"a":1e400}',
    b'{"a":1E-400}',
    b'{"a":1e-401}',
    b'{"a":12e-12345 }',
    b'{"a":4e12-9a}',
    b'{"a":' + b"[" * 1023 + b"]" * 1023 + b"}",
    b'{"a":' + b"[" * 1024 + b"]" * 1024 + b"}",
    b'{"a":0.' + b"1" * 16_383 + b"}",
    b'{"a":0.' + b"1" * 16_384 + b"}",
    b'{"a":"' + b"x" * LONG_RUN_OF_DIGITS + b'"}',
    b'{"a":[' + b",".join([b"1e-400"] * 3000) + b"]}",
    None,
]


@pytest.mark.parametrize("value", EDGE_VALUES, ids=range(len(EDGE_VALUES)))
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_value_at_an_edge_gives_the_same_bytes_at_each_place(value: bytes | None, place: int) -> None:
    many = [record(offset=offset) for offset in range(3)]
    many[place] = record(offset=place, value=value)
    for mapping in (RecordMapping(), RecordMapping(accept_tombstones=True), RecordMapping(max_message_bytes=200)):
        check(mapping, many)


@given(st.lists(st.none() | st.binary(max_size=6) | st.sampled_from([rb"\u0000", b"1e10,", b"1e1", b"\\", b"9E+007]"])))
def test_the_scan_finds_the_values_that_the_pattern_matches(values: list[bytes | None]) -> None:
    column = pyarrow.array([b"", *values], pyarrow.binary()).slice(1)
    expected = {row for row, value in enumerate(values) if value is not None and needs_slow_check(value)}
    assert record_columns._suspicious_rows(column) == expected


def test_a_batch_is_cut_into_blocks_of_bounded_records_and_bytes() -> None:
    many = [record(offset=offset) for offset in range(BLOCK_RECORDS + 1)]
    assert [len(block) for block in check(RecordMapping(), many)] == [BLOCK_RECORDS, 1]
    large = b'{"a":"' + b"x" * 400_000 + b'"}'
    found = check(RecordMapping(), [record(offset=offset, value=large) for offset in range(7)])
    assert [len(block) for block in found] == [3, 3, 1]


def test_large_binary_columns_give_the_same_bytes() -> None:
    many = [record(), record(offset=8, key=None, value=None)]
    columns = record_batch(many)
    large = pyarrow.large_binary()
    for name in ("key", "value"):
        place = columns.schema.get_field_index(name)
        columns = columns.set_column(place, name, columns.column(name).cast(large))
    check(RecordMapping(), many, columns)


def test_a_batch_of_two_partitions_is_refused() -> None:
    both = record_batch([record(), record(partition=1)])
    with pytest.raises(ValueError, match="holds 2 partitions, but must hold one"):
        list(blocks(RecordMapping(), both, STREAM))


def test_an_empty_batch_gives_no_blocks() -> None:
    assert list(blocks(RecordMapping(), record_batch([]), STREAM)) == []


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 9), st.integers(0, 9))
def test_offsets_ascend_within_a_range(offsets: list[int], start: int, end: int) -> None:
    (block,) = blocks(RecordMapping(), record_batch([record(offset=offset) for offset in offsets]), STREAM)
    expected = offsets == sorted(set(offsets)) and all(start <= offset < end for offset in offsets)
    assert block.ascends_within(start, end) is expected
    assert block.last == offsets[-1]


READ_BLOCKS = """
import sys
import pyarrow
from workorders.kafka.ingest.record_columns import blocks
from workorders.kafka.ingest.record_mapping import RecordMapping
for batch in pyarrow.ipc.open_stream(sys.stdin.buffer):
    for block in blocks(RecordMapping(), batch, "s"):
        ids = [bytes(16)] * len(block)
        print(len(b"".join([*block.work_orders(ids, b"", b""), *block.dataclips(ids)])), len(list(block)), block.size)
assert "pandas" not in sys.modules
"""


def test_the_columns_are_mapped_without_pandas() -> None:
    columns = record_batch([record(), record(key=b"\xff", value=rb'{"a":"\u00e4"}', headers=[]), record(value=None)])
    stream = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, columns.schema) as writer:
        writer.write_batch(columns)
    subprocess.run(
        [sys.executable, "-c", READ_BLOCKS],
        input=stream.getvalue().to_pybytes(),
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
