"""Kafka records in the Arrow record batches in which Spark hands them to Python."""

from collections.abc import Iterable
from typing import Final

import pyarrow

from workorders.kafka.partitions import Record

_SCHEMA: Final = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp_ms", pyarrow.int64()),
        ("timestampType", pyarrow.int32()),
        ("headers", pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))),
    ]
)


def record_batch(records: Iterable[Record]) -> pyarrow.RecordBatch:
    """Return records in one batch; Spark's headers are null if there are none."""
    rows = [
        {
            **one._asdict(),
            "timestampType": one.timestamp_type,
            "headers": [{"key": name, "value": value} for name, value in one.headers] or None,
        }
        for one in records
    ]
    return pyarrow.RecordBatch.from_pylist(rows, schema=_SCHEMA)
