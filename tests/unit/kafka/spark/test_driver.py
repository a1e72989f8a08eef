from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.errors import PySparkException

from local_stack.certificates import Authority
from workorders.core.creation.work_orders import Created
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.kafka.spark.driver import groups_of_writers, is_server_lost, outcome_table, url_for_executors


@pytest.mark.parametrize(
    ("ranges", "max_writers", "groups"),
    [
        (5, 2, [[0, 1], [2, 3], [4]]),
        (4, 2, [[0, 1], [2, 3]]),
        (2, 4, [[0, 1]]),
        (3, None, [[0, 1, 2]]),
        (0, None, []),
        (0, 2, []),
    ],
)
def test_each_range_is_in_one_group_and_no_group_has_more_ranges_than_writers(
    ranges: int, max_writers: int | None, groups: list[list[int]]
) -> None:
    attempts: Any = list(range(ranges))
    found: Any = groups_of_writers(attempts, max_writers)
    assert found == groups


class RetriesExceeded(PySparkException):
    """What the client of Spark 4.0 raises; later versions raise the last error instead."""

    def getCondition(self) -> str:  # noqa: N802 - PySpark's name
        return "RETRIES_EXCEEDED"


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (RetriesExceeded("The maximum number of retries has been exceeded."), True),
        (
            PySparkException(
                "<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.CANCELLED\n"
            ),
            True,
        ),
        (ValueError("Cannot invoke RPC on closed channel!"), True),
        (ValueError("invalid literal for int()"), False),
        (PySparkException("The task failed."), False),
    ],
)
def test_a_lost_server_is_recognized_by_what_each_client_raises(error: Exception, is_lost: bool) -> None:
    assert is_server_lost(error) == is_lost


def test_executors_get_the_text_of_a_certificate_that_a_mounted_secret_names(tmp_path: Path) -> None:
    authority, file = Authority.create("a private authority"), tmp_path / "ca.pem"
    file.write_text(authority.pem)
    url = url_for_executors(f"postgresql://ann@db/orders?sslmode=verify-full&sslrootcert={file}")
    assert conninfo_to_dict(url)["sslrootcert"] == authority.pem


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
