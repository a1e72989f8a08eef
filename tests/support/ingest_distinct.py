"""`python -m support.ingest_distinct BATCH EPOCH`: ingest a batch of messages with distinct keys and headers.

The messages are made here, in Spark's Arrow batches. Prints how many were created and the peak of resident memory.
"""

import resource
import sys
from collections.abc import Iterator
from unittest.mock import patch

import pyarrow

from support.record_batches import record_batch
from workorders.core.postgres.connection import connect
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.ledger import batches
from workorders.kafka.partitions import OffsetRange, Record
from workorders.kafka.spark import partition_ingest
from workorders.kafka.spark.partition_ingest import PartitionIngest

RECORDS_A_BATCH = 10_000


def distinct(range_: OffsetRange) -> Iterator[pyarrow.RecordBatch]:
    """Yield the messages of a range; no key, header or value comes twice."""
    for begin in range(range_.start, range_.end, RECORDS_A_BATCH):
        numbers = range(begin, min(begin + RECORDS_A_BATCH, range_.end))
        yield record_batch(
            Record(
                *range_.partition.topic_partition,
                number,
                b"key-%d" % number,
                b'{"number":%d}' % number,
                number,
                0,
                [(f"name-{number}", b"value-%d" % number)],
            )
            for number in numbers
        )


def main(batch_id: int, epoch: int) -> None:
    """Ingest the one range of the batch."""
    database_url = JobSecrets.from_environment().database_url
    with connect(database_url) as connection:
        batch = batches.load(connection, batch_id)
    range_ = batch.ranges[0].range
    attempt = Attempt(batch_id=batch_id, trigger=batch.trigger, range=range_, epoch=epoch, read_from=range_.start)
    # There is no topic: the messages are made here.
    with patch.object(partition_ingest, "verify_topic_unchanged"):
        outcome = PartitionIngest(database_url, {}, RecordMapping(), [attempt]).ingest(attempt, distinct(range_))
    if outcome.error is not None:
        sys.exit(outcome.error)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(outcome.created.created, peak_kib * 1024)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
