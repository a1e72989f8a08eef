"""Messages that break readers, through real Kafka, Spark and Postgres: none of them may stop its partition.

One batch for most of them, since it takes seconds. What Spark reads and what our own reader reads must come out
alike, so the same messages go both ways.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from subprocess import CompletedProcess
from typing import Any

import pytest
from psycopg.rows import class_row

from local_stack.stack import LocalStack
from support.attempting import preflight
from support.definitions import define
from support.raw_records import produce_raw
from support.topics import Topics
from workorders.core.postgres.connection import connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.ledger import batches, positions
from workorders.kafka.planning.planner import Plan, plan_batch
from workorders.kafka.spark.partition_ingest import PartitionIngest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900), pytest.mark.usefixtures("whole_work_orders")]

Planner = Callable[..., Plan]

Submit = Callable[..., "CompletedProcess[str]"]

MIB = 1024 * 1024
ANYTHING_GOES = {
    # Old times would be deleted by retention, within the half minute after the broker has started.
    "retention.ms": "-1",
    "max.message.bytes": str(40 * MIB),
    # Brokers refuse times of more than an hour ahead, unless they are told so or are older than 4.0.
    "message.timestamp.after.max.ms": str(2**63 - 1),
}

OFTEN = 100

ODD_VALUES: list[tuple[bytes | None, str | None]] = [
    (b'{"a":1,"b":0,"a":2}', None),
    (b'{"a":' * 1024 + b"1" + b"}" * 1024, None),
    (b'{"a":' * 1025 + b"1" + b"}" * 1025, "nested-too-deep"),
    (b"[" * 500_000, "nested-too-deep"),
    (b'{"a":1e400}', "number-out-of-range"),
    (b'{"a":1e-16384}', "number-out-of-range"),
    (b'{"a":' + b"9" * 100_000 + b"}", "number-out-of-range"),
    (b'{"a":1.7976931348623157e308}', None),
    (rb'{"a":"\u0000"}', "nul-character"),
    (b'{"a":"\0"}', "nul-character"),
    (rb'{"a":"\ud83d"}', "lone-surrogate"),
    (b'{"a":"\xed\xa0\x80"}', "not-utf8"),
    (b"\xff\xfe", "not-utf8"),
    (b'{"a":NaN}', "not-a-number"),
    (b"", "not-json"),
    (None, "null-value"),
    (b"[]", "not-an-object"),
    (b"{}", None),
]
ODD_KEYS: list[tuple[bytes | None, Any]] = [
    (None, None),
    (b"", ""),
    (b"a\0b", {"base64": "YQBi"}),
    (b"\xff", {"base64": "/w=="}),
]
YEAR_9999, YEAR_294246, YEAR_300000 = 253_402_300_799_000, 9_223_372_036_854_000, 9_404_668_800_000_000
BEYOND_SPARK = [YEAR_300000, 2**63 - 1]
TIMES: list[tuple[int, int | None]] = [
    (1_700_000_000_000, 1_700_000_000_000),
    (-1, None),
    (1, 1),
    (YEAR_9999, YEAR_9999),
    (YEAR_294246, YEAR_294246),
]


@dataclass(frozen=True, slots=True)
class Row:
    """What the database holds of one message."""

    position: int
    code: str | None
    """Why it was rejected."""
    body: str | None
    """As text: Python's own parser gives up before the 1024 levels that are accepted."""
    raw: bytes | None
    request: dict[str, Any]

    def alike(self) -> "Row":
        """Return what two messages with the same content in two partitions share."""
        return replace(self, request={**self.request, "partition": None, "timestamp": None})


def made(stack: LocalStack, planned: Plan, partition: int) -> list[Row]:
    """Return what became of a partition's messages, in the order of their offsets."""
    with connect(stack.database_url) as own, own.cursor(row_factory=class_row(Row)) as cursor:
        return cursor.execute(
            """
            SELECT position, rejections.code, dataclips.body::text AS body, rejections.raw,
                coalesce(dataclips.request, rejections.request) AS request
            FROM workorders.work_orders
            LEFT JOIN workorders.dataclips USING (id)
            LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
            WHERE trigger_id = %s AND coalesce(dataclips.request, rejections.request) ->> 'partition' = %s
            ORDER BY position
            """,
            (planned.trigger.id, str(partition)),
        ).fetchall()


@pytest.fixture
def large(stack: LocalStack) -> Topics:
    """A producer that sends more than a megabyte."""
    return Topics({**stack.kafka_settings, "message.max.bytes": 40 * MIB})


@pytest.fixture
def plan(stack: LocalStack, cluster: KafkaAdmin, name: str) -> Planner:
    def planned(**fields: Any) -> Plan:
        with connect(stack.database_url) as own:
            return run(plan_batch(own, cluster, define(name, max_bytes="1GiB", **fields)))

    return planned


def produce_odd(topics: Topics, name: str, partition: int) -> None:
    """Write the odd values with odd keys and headers, an aborted transaction and one that was committed."""
    headers = [("b", b"1"), ("a", None), ("b", b"\xff"), ("", b"")]
    for number, (value, _) in enumerate(ODD_VALUES):
        topics.produce(name, [value], partition, key=ODD_KEYS[number % 4][0], headers=headers[: number % 5])
    topics.produce_aborted(name, [b'{"aborted":true}'] * 3, partition)
    topics.produce_committed(name, [b'{"committed":true}'], partition)


def produce_times(topics: Topics, name: str, partition: int, times: Iterable[int]) -> None:
    for time in times:  # a set of messages each, for a set holds differences to its first time
        topics.produce(name, [b"{}"], partition, timestamp_ms=time)


def ingest_without_spark(stack: LocalStack, planned: Plan, partition: int) -> None:
    """Begin an attempt at the batch, as the driver does, and read one of its ranges with our own reader."""
    assert planned.batch_id is not None
    with connect(stack.database_url) as own:
        epoch = positions.take_epoch(own, planned.batch_id)
        own.commit()
        batch = batches.load(own, planned.batch_id)
    attempts = preflight(stack.kafka_settings, batch, epoch).attempts
    task = PartitionIngest(stack.database_url, client_settings(stack.kafka_settings), RecordMapping(), attempts)
    assert task.ingest_without_spark(attempts[partition]).error is None


def test_no_message_stops_a_partition_whatever_it_is(
    stack: LocalStack, large: Topics, plan: Planner, submit: Submit, name: str
) -> None:
    large.create(name, partitions=5, config=ANYTHING_GOES)
    produce_odd(large, name, 0)
    large.produce(name, (b"rubbish %d" % number for number in range(20_000)), 1)
    headers = [(f"name-{number % 100}", b"%d" % number) for number in range(10_000)]
    accepted_size, rejected_size = 20 * MIB, 30 * MIB
    large.produce(name, [b'{"a":"' + b"x" * (accepted_size - 8) + b'"}', b'{"a":"' + b"x" * rejected_size + b'"}'], 2)
    large.produce(name, [b"{}"], 2, headers=headers)
    produce_times(large, name, 3, [time for time, _ in TIMES])
    produce_raw(stack.bootstrap_servers, name, 3, [(b"\xff", b"1")])
    produce_odd(large, name, 4)
    planned = plan(max_message_bytes="24MiB")
    ingest_without_spark(stack, planned, 4)

    done = submit(planned.batch_id)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "without Spark" not in done.stdout
    odd = made(stack, planned, 0)
    assert [(row.code, row.raw) for row in odd] == [
        *((code, value if code else None) for value, code in ODD_VALUES), (None, None)
    ]  # fmt: skip
    assert [row.request["key"] for row in odd[:-1]] == [ODD_KEYS[row.position % 4][1] for row in odd[:-1]]
    assert odd[0].body == '{"a": 2, "b": 0}'
    assert odd[-1].body == '{"committed": true}'
    assert [row.alike() for row in made(stack, planned, 4)] == [row.alike() for row in odd]
    assert [(row.code, row.raw) for row in made(stack, planned, 1)] == [
        ("not-json", b"rubbish %d" % n) for n in range(20_000)
    ]
    whole, too_large, many_headers = made(stack, planned, 2)
    assert len(whole.body or "") == accepted_size + len(" ")
    assert (too_large.code, len(too_large.raw or b"")) == ("too-large", rejected_size + 8)
    assert many_headers.request["headers"] == [[key, value.decode()] for key, value in headers]
    *timed, raw = made(stack, planned, 3)
    assert [row.request["timestamp"] for row in timed] == [kept for _, kept in TIMES]
    assert raw.request["headers"] == [["\ufffd", "1"]]


def test_a_timestamp_that_spark_cannot_hold_stops_nothing(
    stack: LocalStack, topics: Topics, plan: Planner, submit: Submit, name: str
) -> None:
    """Spark's source counts in microseconds and fails above the year 294246, whichever columns are asked for."""
    topics.create(name, partitions=2, config=ANYTHING_GOES)
    times = [1_700_000_000_000, *BEYOND_SPARK, -1, 1]
    produce_times(topics, name, 0, times)
    topics.produce(name, [b"{}", b"rubbish", b"{}"], 1)
    planned = plan()

    done = submit(planned.batch_id)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    sentence = "a message has a timestamp that Spark cannot hold, so this range is read without Spark"
    assert done.stdout.count(sentence) == 1
    assert [row.request["timestamp"] for row in made(stack, planned, 0)] == [1_700_000_000_000, *BEYOND_SPARK, None, 1]
    assert {row.request["timestamp_type"] for row in made(stack, planned, 0)} == {"CreateTime"}
    assert [row.code for row in made(stack, planned, 1)] == [None, "not-json", None]
    with connect(stack.database_url) as own:
        assert [place.next_offset for place in positions.status(own, planned.trigger.name)] == [5, 3]


def test_header_names_that_are_no_text_stop_nothing_without_spark_either(
    stack: LocalStack, topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name, config=ANYTHING_GOES)
    # Python calls in another way what it has called often.
    topics.produce(name, [b"{}"] * OFTEN, headers=[("ok", b"2")], timestamp_ms=YEAR_300000)
    produce_raw(stack.bootstrap_servers, name, 0, [(b"\xff", b"1"), (b"ok", b"2")], timestamp_ms=YEAR_300000)
    produce_raw(stack.bootstrap_servers, name, 0, [(b"ok", b"2")], timestamp_ms=YEAR_300000)
    planned = plan()
    ingest_without_spark(stack, planned, 0)
    *often, unreadable, well = made(stack, planned, 0)
    assert [row.request["headers"] for row in often] == [[["ok", "2"]]] * OFTEN
    assert unreadable.request["headers"] == [["workorders.unreadable-headers", None]]
    assert well.request["headers"] == [["ok", "2"]]
    assert {row.request["timestamp"] for row in (unreadable, well)} == {YEAR_300000}
