import json

from workorders.core.triggers import Trigger
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.kafka.spark.source import options, rounds

TRIGGER = Trigger(1, "orders", "kafka", 1, "admit")


def attempt(topic: str, partition: int, start: int, end: int, read_from: int) -> Attempt:
    range_ = OffsetRange(Partition(topic, partition, "id"), start, end)
    return Attempt(batch_id=7, trigger=TRIGGER, range=range_, epoch=1, read_from=read_from)


def test_every_partition_is_read_from_where_its_attempt_begins_to_where_its_range_ends() -> None:
    found = options({}, [attempt("a", 0, 5, 9, 7), attempt("a", 2, 0, 1, 0), attempt("b", 0, 3, 4, 3)])
    assert json.loads(found["assign"]) == {"a": [0, 2], "b": [0]}
    assert json.loads(found["startingOffsets"]) == {"a": {"0": 7, "2": 0}, "b": {"0": 3}}
    assert json.loads(found["endingOffsets"]) == {"a": {"0": 9, "2": 1}, "b": {"0": 4}}


def test_a_setting_of_the_connection_wins_over_a_default() -> None:
    assert options({}, [])["kafka.max.poll.records"] == "20000"
    assert options({"max.poll.records": "10"}, [])["kafka.max.poll.records"] == "10"


def test_no_setting_of_the_connection_weakens_what_is_promised() -> None:
    found = options({"isolation.level": "read_uncommitted", "fetch.max.bytes": "9"}, [])
    assert found["kafka.isolation.level"] == "read_committed"
    assert found["failOnDataLoss"] == "true"
    assert found["kafka.fetch.max.bytes"] == "9"


def test_no_relation_of_spark_has_two_ranges_of_one_partition() -> None:
    parts = [attempt("a", 0, start, start + 5, start) for start in (0, 5, 10)]
    other, another = attempt("a", 1, 0, 9, 0), attempt("b", 0, 0, 9, 0)
    assert rounds([*parts, other, another]) == [[parts[0], other, another], [parts[1]], [parts[2]]]
