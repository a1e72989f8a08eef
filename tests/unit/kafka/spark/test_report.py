from workorders.core.creation.work_orders import Created
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.kafka.spark.report import outcome_table


def outcome(topic: str, partition: int, created: Created, error: str | None = None) -> RangeOutcome:
    return RangeOutcome(OffsetRange(Partition(topic, partition, "id"), 100, 2100), created, 1.26, error)


def test_a_log_ends_with_a_line_a_partition_sorted_and_aligned() -> None:
    lines = outcome_table(
        [
            outcome("visits", 0, Created(), "visits 0 [100, 2100): no."),
            outcome("orders", 10, Created(1234, 5, 0, filtered=70_000)),
            outcome("orders", 9, Created(0, 0, 2000)),
        ]
    ).splitlines()
    assert lines == [
        "partition  offsets      created  rejected  existing  filtered  seconds",
        "orders 9   [100, 2100)        0         0     2,000         0      1.3  done",
        "orders 10  [100, 2100)    1,234         5         0    70,000      1.3  done",
        "visits 0   [100, 2100)        -         -         -         -      1.3  stalled",
    ]


def test_a_partition_that_stalled_shows_no_counts() -> None:
    (_, line) = outcome_table([outcome("orders", 0, Created(7, 7, 7), "orders 0 [100, 2100): no.")]).splitlines()
    assert "7" not in line
