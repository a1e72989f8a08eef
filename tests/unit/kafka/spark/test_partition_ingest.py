import gc
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.record_batches import record_batch
from unit.kafka.ingest.test_record_mapping import PLACE, STREAM, filtering, mappings, record, records
from workorders.core.creation.work_orders import Created
from workorders.core.items import Item
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import FencedError
from workorders.kafka.ingest.attempt import Attempt, RangeOutcome
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.partitions import OffsetRange, Partition, Record, VirtualPartition
from workorders.kafka.spark import driver, partition_ingest
from workorders.kafka.spark.partition_ingest import RESULT_SCHEMA, PartitionIngest, describe_failure, map_batch

ORDERS = OffsetRange(Partition("orders", 3, "id"), 100, 200)
ATTEMPT = Attempt(batch_id=7, trigger=Trigger(1, "orders", "kafka", 1, "admit"), range=ORDERS, epoch=1, read_from=100)
# Port 1 of the loopback interface: no process listens there.
UNREACHABLE = "postgresql://someone:hunter2@127.0.0.1:1/nowhere"
INGEST = PartitionIngest(UNREACHABLE, {"sasl.password": "hunter3"}, RecordMapping(), [ATTEMPT])


def messages(*offsets: int, topic: str = "orders", partition: int = 3) -> pyarrow.RecordBatch:
    return record_batch(Record(topic, partition, offset, None, b"{}", 0, 0) for offset in offsets)


def outcome_of(answer: pyarrow.RecordBatch) -> RangeOutcome:
    (row,) = answer.to_pylist()
    return driver._OUTCOME.validate_json(row["outcome"])


def test_a_partition_without_messages_answers_nothing() -> None:
    assert list(INGEST(iter([]))) == []
    assert list(INGEST(iter([messages(), messages()]))) == []


def test_a_failure_is_answered_and_not_raised_so_that_other_partitions_continue() -> None:
    (answer,) = INGEST(iter([messages(), messages(100), messages(101)]))
    outcome = outcome_of(answer)
    assert outcome.range == ORDERS
    assert outcome.created == Created()
    assert outcome.error is not None
    assert outcome.error.startswith("orders 3 [100, 200): OperationalError: connection failed")
    assert outcome.error.endswith("; nothing was committed there.")
    assert "\n" not in outcome.error
    assert "hunter" not in outcome.error


def test_the_answer_has_exactly_the_types_that_spark_was_told() -> None:
    """Spark looks at the types after the function, that is after its commit."""
    (answer,) = INGEST(iter([messages(100)]))
    assert RESULT_SCHEMA == "outcome string"
    assert [(field.name, field.type) for field in answer.schema] == [("outcome", pyarrow.string())]


def test_what_travels_to_the_executors_shows_no_secret() -> None:
    assert "hunter" not in repr(INGEST)
    assert pickle.loads(pickle.dumps(INGEST)) == INGEST


def test_an_answer_becomes_the_whole_outcome_of_its_own_range() -> None:
    for range_ in (ORDERS, VirtualPartition(ORDERS.partition, 100, 150, ORDERS)):
        outcome = RangeOutcome(range_, Created(1, 2, 3, filtered=4), 0.5, "orders 3: é\n", fenced=True)
        assert outcome_of(partition_ingest._row(outcome)) == outcome


@pytest.mark.parametrize(
    ("failure", "fenced"), [(FencedError("orders: fenced."), True), (psycopg.OperationalError("gone"), False)]
)
def test_an_answer_contains_whether_the_attempt_was_fenced(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, *, fenced: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(partition_ingest, "connect", refuse)
    (answer,) = INGEST(iter([messages(100)]))
    outcome = outcome_of(answer)
    assert outcome.fenced == fenced


def test_a_message_leads_to_the_virtual_partition_that_it_belongs_to() -> None:
    parts = [VirtualPartition(ORDERS.partition, start, start + 50, ORDERS) for start in (100, 150)]
    ingest = replace(INGEST, attempts=[replace(ATTEMPT, range=part, read_from=part.start) for part in parts])
    for part in parts:
        (answer,) = ingest(iter([messages(part.end - 1)]))
        outcome = outcome_of(answer)
        assert outcome.range == part
        assert outcome.error is not None
        assert outcome.error.startswith(f"orders 3 [{part.start}, {part.end}) of [100, 200): OperationalError")


@pytest.mark.parametrize("stranger", [{"partition": 4}, {"topic": "visits"}])
def test_messages_of_two_partitions_in_one_task_are_an_error_although_their_offsets_ascend(
    monkeypatch: pytest.MonkeyPatch, stranger: dict[str, Any]
) -> None:
    def take(_connection: object, _attempt: Attempt, items: Iterable[Item], *_: object) -> Created:
        return Created(len(list(items)))

    monkeypatch.setattr(partition_ingest, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(partition_ingest, "ingest", take)
    (answer,) = INGEST(iter([messages(100, 101), messages(102, 103)]))
    assert outcome_of(answer).created == Created(4)
    (answer,) = INGEST(iter([messages(100, 101), messages(102, 103, **stranger)]))
    outcome = outcome_of(answer)
    assert outcome.error is not None
    assert "the reader of orders 3 [100, 200) delivered messages of another partition; nothing" in outcome.error


def test_our_own_failures_are_reported_as_they_are() -> None:
    assert describe_failure(ORDERS, FencedError("orders: fenced; nothing was committed here.")) == (
        "orders: fenced; nothing was committed here. [WO-FENCED]"
    )


@pytest.mark.parametrize(
    "failure", [psycopg.OperationalError("server closed\n\tunexpectedly"), ValueError("no\n  way")]
)
def test_any_other_failure_is_one_line_with_its_place(failure: Exception) -> None:
    text = describe_failure(ORDERS, failure)
    assert text.startswith(f"orders 3 [100, 200): {type(failure).__name__}: ")
    assert text.endswith("; nothing was committed there.")
    assert "\n" not in text


def test_a_failure_that_quotes_what_text_cannot_hold_is_answered_nevertheless() -> None:
    assert describe_failure(ORDERS, ValueError("odd \ud800")).startswith(
        "orders 3 [100, 200): ValueError: odd \\ud800;"
    )


def test_the_cycle_collector_works_again_after_a_partition() -> None:
    list(INGEST(iter([messages(100)])))
    assert gc.isenabled()


def test_a_failure_in_the_jvm_is_reported_without_its_stack() -> None:
    java = "Job aborted: Lost task 0.0: KafkaIllegalStateException: no\n\tat org.apache.spark.A.b(A.scala:1)\n\tat C.d"
    assert describe_failure(ORDERS, RuntimeError(java)) == (
        "orders 3 [100, 200): RuntimeError: Job aborted: Lost task 0.0: KafkaIllegalStateException: no; "
        "nothing was committed there."
    )


def test_items_go_to_the_stream_of_their_log_and_the_topic_is_proved_with_the_executors_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a cut, the same offsets of the same topic are other messages."""
    streams: list[str | None] = []
    proved: list[object] = []

    def ingest(
        _: object, __: object, items: Iterable[Item], ___: object, verify_topic_unchanged: Callable[[], None]
    ) -> Created:
        streams.extend(item.stream for item in items)
        verify_topic_unchanged()
        return Created(2)

    monkeypatch.setattr(partition_ingest, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(partition_ingest, "ingest", ingest)
    monkeypatch.setattr(partition_ingest, "verify_topic_unchanged", lambda *given: proved.extend(given))
    outcome = INGEST.ingest(replace(ATTEMPT, generation=5), iter([messages(100, 101)]))
    assert (outcome.created, outcome.error) == (Created(2), None)
    assert streams == ["orders/3@id~5"] * 2
    assert proved == [INGEST.kafka_settings, replace(ATTEMPT, generation=5)]


def check(mapping: RecordMapping, many: list[Record], batch: pyarrow.RecordBatch) -> None:
    assert list(map_batch(mapping, PLACE, batch, STREAM)) == [mapping.map_record(one, STREAM) for one in many]


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
from workorders.core.creation.work_orders import Created
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.kafka.spark.partition_ingest import _row, map_batch
_row(RangeOutcome(OffsetRange(Partition("orders", 0, "id"), 0, 1), Created(), 0.0))
for batch in pyarrow.ipc.open_stream(sys.stdin.buffer):
    assert len(list(map_batch(RecordMapping(), ("orders", 0), batch, "s"))) == 3
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
