"""Maps the Arrow record batches in which Spark hands Kafka records to Python."""

from collections.abc import Iterator
from itertools import accumulate

import pyarrow
from pyarrow import compute

from workorders.core.creation.json_validation import SUSPICIOUS_PATTERN
from workorders.core.items import Item
from workorders.kafka.formats.decoded import Headers
from workorders.kafka.ingest.record_mapping import RecordMapping

_FIELDS = ("topic", "partition", "offset", "key", "value", "timestamp_ms", "timestampType")


def map_batch(mapping: RecordMapping, batch: pyarrow.RecordBatch, stream: str) -> Iterator[Item]:
    """Return the items of a batch, one by one.

    Args:
        mapping: of the trigger.
        batch: with the columns `topic` (string), `partition` (int32), `offset` (int64), `key`, `value` (binary),
            `timestamp_ms` (int64: milliseconds, since a Spark timestamp spoils -1 and the year 300000),
            `timestampType` (int32), `headers` (list of struct of key and value; null when a record has none).
        stream: the name of the topic and partition within the trigger.
    """
    records = zip(*(batch[name].to_pylist() for name in _FIELDS), _headers(batch["headers"]), strict=True)
    odd = compute.match_substring_regex(batch["value"], pattern=SUSPICIOUS_PATTERN).to_pylist()
    return mapping.map_records(records, odd, stream)


def _headers(column: pyarrow.ListArray) -> list[Headers]:
    """Return the headers of each record."""
    # `to_pylist` of this column would make a dict for each header, which takes twice as long.
    names, values = (field.to_pylist() for field in column.flatten().flatten())
    pairs = list(zip(names, values, strict=True))
    counts = [count or 0 for count in column.value_lengths().to_pylist()]
    return [pairs[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]
