"""The records of Spark's batches give the same items as records that are mapped one by one."""

import subprocess
import sys

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.record_batches import record_batch
from unit.kafka.ingest.test_record_mapping import STREAM, filtering, mappings, record, records
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.partitions import Record
from workorders.kafka.spark.record_batches import map_batch


def check(mapping: RecordMapping, many: list[Record], batch: pyarrow.RecordBatch) -> None:
    assert list(map_batch(mapping, batch, STREAM)) == [mapping.map_record(one, STREAM) for one in many]


@given(st.lists(records, max_size=12), mappings | filtering, st.integers(0, 3))
def test_a_batch_gives_the_items_of_its_records(many: list[Record], mapping: RecordMapping, skipped: int) -> None:
    check(mapping, many, record_batch(many))
    check(mapping, many[skipped:], record_batch(many).slice(skipped))


@pytest.mark.parametrize(
    "value", [None, b"", rb'{"a":"\u0000"}', b'{"a":"\xff"}', b'{"a":12e-12345 }', b'{"a":4e12-9a}']
)
@pytest.mark.parametrize("type_", [pyarrow.binary(), pyarrow.large_binary()], ids=str)
def test_a_value_gives_the_same_item_in_either_binary_type(value: bytes | None, type_: pyarrow.DataType) -> None:
    many = [record(offset=1, key=None), record(offset=2, value=value), record(offset=3, key=b"\xff", headers=[])]
    batch = record_batch(many)
    for name in ("key", "value"):
        batch = batch.set_column(batch.schema.get_field_index(name), name, batch.column(name).cast(type_))
    check(RecordMapping(), many, batch)


MAP_BATCHES = """
import sys
import pyarrow
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.spark.record_batches import map_batch
for batch in pyarrow.ipc.open_stream(sys.stdin.buffer):
    assert len(list(map_batch(RecordMapping(), batch, "s"))) == 3
assert "pandas" not in sys.modules
"""


def test_batches_are_mapped_without_pandas() -> None:
    """To import it costs each worker more CPU than a small batch."""
    batch = record_batch([record(), record(key=b"\xff", value=rb'{"a":"\u00e4"}', headers=[]), record(value=None)])
    stream = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    subprocess.run(
        [sys.executable, "-c", MAP_BATCHES],
        input=stream.getvalue().to_pybytes(),
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
