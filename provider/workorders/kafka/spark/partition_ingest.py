"""Runs in Spark's Python workers: creates the work orders of one range or virtual partition in one transaction."""

import gc
import time
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain

import orjson
import pyarrow
from pyarrow import compute

from workorders.core.creation.json_validation import SUSPICIOUS_PATTERN
from workorders.core.creation.work_orders import Created
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.items import Item
from workorders.core.postgres.connection import connect
from workorders.kafka.client.range_consumer import read_range
from workorders.kafka.exceptions import FencedError, RegistryError, UnexpectedMessageError
from workorders.kafka.formats.decoded import Headers
from workorders.kafka.ingest.attempt import Attempt, RangeOutcome
from workorders.kafka.ingest.log_checks import verify_range_end, verify_topic_unchanged
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.spark.installed_package import installed_package
from workorders.outbox.exceptions import OutboxMessageError

RESULT_SCHEMA = "outcome string"
"""What Spark gets of a range: its outcome as JSON."""
_FIELDS = ("offset", "key", "value", "timestamp_ms", "timestampType")


@dataclass(frozen=True, slots=True, repr=False)
class PartitionIngest:
    """The function that Spark calls for each of its partitions; it is pickled for the executors.

    Without a repr, because it has the connections' secrets.
    """

    database_url: str
    kafka_settings: Mapping[str, str]
    mapping: RecordMapping
    attempts: Sequence[Attempt]
    package: str = field(default_factory=installed_package)
    """Which package the caller has; a worker with another one touches nothing."""

    def __call__(self, record_batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Ingest one range and yield one row of RESULT_SCHEMA; nothing for a range without messages.

        A failure is returned and not raised, because an exception would make Spark cancel the other partitions' tasks.
        """
        first = next((batch for batch in record_batches if batch.num_rows), None)
        if first is None:
            return
        attempt = self._attempt(*(first[name][0].as_py() for name in ("topic", "partition", "offset")))
        if self.package != installed_package():
            error = (
                f"{attempt.range}: Spark's Python workers have workorders {installed_package()} and this task has "
                f"{self.package}; nothing was committed there. Install the same package on both sides; restart a Spark "
                f"Connect server after it has changed."
            )
            yield _row(RangeOutcome(attempt.range, Created(), 0.0, error))
            return
        gc.disable()  # messages have no cycles, and to search for some takes a tenth of the CPU here
        try:
            outcome = self.ingest(attempt, chain([first], record_batches))
        finally:
            gc.enable()
        yield _row(outcome)

    def ingest_without_spark(self, attempt: Attempt) -> RangeOutcome:
        """Read one range with our own consumer, one message at a time and several times slower, and ingest it."""
        with closing(read_range(self.kafka_settings, attempt.range, attempt.read_from)) as records:
            return self._ingest(attempt, (self.mapping.map_record(record, attempt.stream) for record in records))

    def ingest(self, attempt: Attempt, record_batches: Iterable[pyarrow.RecordBatch]) -> RangeOutcome:
        """Ingest the messages of one range as Spark gives them; see `source.read_ranges`."""
        return self._ingest(attempt, self._items(attempt, record_batches))

    def _items(self, attempt: Attempt, record_batches: Iterable[pyarrow.RecordBatch]) -> Iterator[Item]:
        for batch in record_batches:
            _require_one_partition(attempt, batch)
            yield from map_batch(self.mapping, attempt.range.partition.topic_partition, batch, attempt.stream)

    def _ingest(self, attempt: Attempt, items: Iterable[Item]) -> RangeOutcome:
        """Ingest on a separate connection, and return the outcome."""
        begun = time.monotonic()
        created, error, fenced = Created(), None, False
        try:
            with connect(self.database_url, application_name=f"workorders batch {attempt.batch_id}") as connection:
                created = ingest(
                    connection,
                    attempt,
                    items,
                    partial(verify_range_end, self.kafka_settings, attempt.range),
                    partial(verify_topic_unchanged, self.kafka_settings, attempt),
                )
        except Exception as failure:  # noqa: BLE001 - any failure is reported and concerns this partition only
            error, fenced = describe_failure(attempt.range, failure), isinstance(failure, FencedError)
        return RangeOutcome(attempt.range, created, time.monotonic() - begun, error, fenced)

    def _attempt(self, topic: str, partition: int, offset: int) -> Attempt:
        """Return the attempt that a message belongs to; another one of its partition then refuses the message."""
        own = [attempt for attempt in self.attempts if attempt.range.partition.topic_partition == (topic, partition)]
        return next((attempt for attempt in own if attempt.range.start <= offset < attempt.range.end), own[0])


def _require_one_partition(attempt: Attempt, batch: pyarrow.RecordBatch) -> None:
    """Raise if Spark gives one task the messages of several partitions, which the order of offsets may not show."""
    topic, partition = attempt.range.partition.topic_partition
    if not (_is_all(batch["partition"], partition) and _is_all(batch["topic"], topic)):
        raise UnexpectedMessageError(
            f"{attempt.trigger.name}: the reader of {attempt.range} delivered messages of another partition; nothing "
            f"was committed there."
        )


def _is_all(column: pyarrow.Array, value: object) -> bool:
    return bool(compute.all(compute.equal(column, pyarrow.scalar(value, column.type))).as_py())


def describe_failure(range_: OffsetRange, failure: BaseException) -> str:
    """Return a failure as one line; exceptions that are not ours get the range and the consequence."""
    # A failure in the JVM has its stack, which Spark's log has as well. Half a surrogate pair, which some errors quote,
    # cannot be serialized.
    message = str(failure).partition("\tat ")[0].encode("utf-8", "backslashreplace").decode()
    text = one_line(message)
    if isinstance(failure, RegistryError | OutboxMessageError):
        return f"{range_}: {text}"  # they know nothing of ranges
    if isinstance(failure, WorkOrdersError):
        return text
    return f"{range_}: {type(failure).__name__}: {text}; nothing was committed there."


def _row(outcome: RangeOutcome) -> pyarrow.RecordBatch:
    """Return an outcome as a row of RESULT_SCHEMA, whose type Spark checks after the function, so after its commit.

    It is made of buffers: to convert Python objects, pyarrow imports pandas if it is installed, which costs each worker
    more CPU than a small batch.
    """
    text = orjson.dumps(outcome)
    offsets = pyarrow.py_buffer(array("i", (0, len(text))))
    column = pyarrow.StringArray.from_buffers(1, offsets, pyarrow.py_buffer(text))
    return pyarrow.RecordBatch.from_arrays([column], ["outcome"])


def map_batch(
    mapping: RecordMapping, place: tuple[str, int], batch: pyarrow.RecordBatch, stream: str
) -> Iterator[Item]:
    """Return the items of a batch, one by one.

    Args:
        mapping: of the trigger.
        place: the topic and partition of all its messages.
        batch: with the columns `offset` (int64), `key`, `value` (binary),
            `timestamp_ms` (int64: milliseconds, since a Spark timestamp spoils -1 and the year 300000),
            `timestampType` (int32), `headers` (list of struct of key and value; null when a record has none).
        stream: the name of the topic and partition within the trigger.
    """
    records = zip(*(batch[name].to_pylist() for name in _FIELDS), _headers(batch["headers"]), strict=True)
    odd = compute.match_substring_regex(batch["value"], pattern=SUSPICIOUS_PATTERN).to_pylist()
    return mapping.map_records(place, records, odd, stream)


def _headers(column: pyarrow.ListArray) -> list[Headers]:
    """Return the headers of each record."""
    # `to_pylist` of this column would make a dict for each header, which takes twice as long.
    names, values = (field.to_pylist() for field in column.flatten().flatten())
    pairs = tuple(zip(names, values, strict=True))
    counts = [count or 0 for count in column.value_lengths().to_pylist()]
    return [pairs[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]
