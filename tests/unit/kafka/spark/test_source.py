import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from workorders.core.triggers import Trigger
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ledger.batches import Batch
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.kafka.spark.source import options, reader_group, rounds

TRIGGER = Trigger(1, "orders", "kafka", 1, "admit")
BATCH = Batch(7, TRIGGER, {}, datetime(2026, 1, 1, tzinfo=UTC), (), logs=("id~0",))
SETTINGS = {"bootstrap.servers": "b:1", "sasl.jaas.config": 'password="hunter2"'}


def attempt(topic: str, partition: int, start: int, end: int, read_from: int) -> Attempt:
    range_ = OffsetRange(Partition(topic, partition, "id"), start, end)
    return Attempt(batch_id=7, trigger=TRIGGER, range=range_, epoch=1, read_from=read_from)


def test_every_partition_is_read_from_where_its_attempt_begins_to_where_its_range_ends() -> None:
    found = options({}, [attempt("a", 0, 5, 9, 7), attempt("a", 2, 0, 1, 0), attempt("b", 0, 3, 4, 3)], "a-group")
    assert json.loads(found["assign"]) == {"a": [0, 2], "b": [0]}
    assert json.loads(found["startingOffsets"]) == {"a": {"0": 7, "2": 0}, "b": {"0": 3}}
    assert json.loads(found["endingOffsets"]) == {"a": {"0": 9, "2": 1}, "b": {"0": 4}}


def test_a_setting_of_the_connection_wins_over_a_default() -> None:
    assert options({}, [], "a-group")["kafka.max.poll.records"] == "20000"
    assert options({"max.poll.records": "10"}, [], "a-group")["kafka.max.poll.records"] == "10"


def test_no_setting_of_the_connection_weakens_what_is_promised() -> None:
    given = {"isolation.level": "read_uncommitted", "group.id": "mine", "fetch.max.bytes": "9"}
    found = options(given, [], "a-group")
    assert found["kafka.group.id"] == "a-group"
    assert found["kafka.isolation.level"] == "read_committed"
    assert found["failOnDataLoss"] == "true"
    assert found["kafka.fetch.max.bytes"] == "9"


def test_no_relation_of_spark_has_two_ranges_of_one_partition() -> None:
    parts = [attempt("a", 0, start, start + 5, start) for start in (0, 5, 10)]
    other, another = attempt("a", 1, 0, 9, 0), attempt("b", 0, 0, 9, 0)
    assert rounds([*parts, other, another]) == [[parts[0], other, another], [parts[1]], [parts[2]]]


def test_all_batches_of_a_trigger_share_a_group() -> None:
    group = reader_group(BATCH, SETTINGS, key="k")
    assert reader_group(replace(BATCH, id=8), dict(reversed(SETTINGS.items())), key="k") == group
    assert group.startswith("workorders-spark-")


@pytest.mark.parametrize(
    ("batch", "settings"),
    [
        (replace(BATCH, trigger=replace(TRIGGER, name="another")), SETTINGS),
        (replace(BATCH, logs=("new~0",)), SETTINGS),
        (replace(BATCH, logs=("id~9",)), SETTINGS),
        (BATCH, {**SETTINGS, "sasl.jaas.config": 'password="hunter3"'}),
        (BATCH, {**SETTINGS, "client.id": "another"}),
    ],
)
def test_a_group_differs_where_settings_do_or_what_offsets_mean(batch: Batch, settings: dict[str, str]) -> None:
    """Spark raises an error with both settings where those of one group differ."""
    assert reader_group(batch, settings, key="k") != reader_group(BATCH, SETTINGS, key="k")


def test_no_password_can_be_guessed_from_a_group_without_the_key() -> None:
    assert reader_group(BATCH, SETTINGS, key="k") != reader_group(BATCH, SETTINGS, key="another")
