"""Virtual partitions through a real Spark: one task for each, with gaps at their borders and failures among them."""

import re
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.definitions import define
from support.ingesting import everything, row, without_breaker
from support.topics import Topics
from support.work_orders import positions, remove
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.planning.planner import Plan, plan_batch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

Planner = Callable[..., Plan]

Submit = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def plan(stack: LocalStack, cluster: KafkaAdmin, name: str) -> Planner:
    def planned(**fields: Any) -> Plan:
        with connect(stack.database_url) as own:
            return run(plan_batch(own, cluster, define(name, virtual_partitions=4, **fields)))

    return planned


def batch_of(planned: Plan) -> int:
    assert planned.batch_id is not None
    return planned.batch_id


def offsets(connection: Connection, trigger: Trigger, range_: OffsetRange) -> list[int]:
    found = [at for at in positions(connection, trigger, stream_name(range_.partition)) if at is not None]
    connection.rollback()
    return sorted(found)


def table_of(done: "CompletedProcess[str]") -> list[list[str]]:
    """Return the cells of the table that ends the log, without the seconds."""
    lines = done.stdout.splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith("partition "))
    cells = [re.split(r"\s{2,}", line) for line in lines[begin + 1 :]]
    return [[*line[:5], line[7]] for line in cells if len(line) == 8]


def test_each_virtual_partition_has_its_messages_whatever_is_at_its_borders_and_a_replay_takes_the_whole_range(
    connection: Connection, topics: Topics, plan: Planner, submit: Submit, name: str
) -> None:
    topics.create(name, partitions=3)
    topics.produce(name, [b"{}"] * 4000)
    # Cut at 1000, 2000, 3000: a commit's marker at 1000, aborted messages over 2000, and all of [3000, 4000) aborted.
    topics.produce_committed(name, [b"{}"] * 1000, partition=1)
    topics.produce(name, [b"{}"] * 900, partition=1)
    topics.produce_aborted(name, [b"{}"] * 199, partition=1)
    topics.produce(name, [b"{}"] * 899, partition=1)
    topics.produce_aborted(name, [b"{}"] * 999, partition=1)
    topics.produce(name, [b"{}"] * 5, partition=2)
    planned = plan()
    visible = [*range(1000), *range(1001, 1901), *range(2101, 3000)]
    assert [(range_.start, range_.end) for range_ in planned.ranges] == [(0, 4000), (0, 4000), (0, 5)]
    done = submit(batch_of(planned))
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    assert table_of(done) == [
        [f"{name} 0", "[0, 4000)", "4,000", "0", "0", "done"],
        [f"{name} 1", "[0, 4000)", f"{len(visible):,}", "0", "0", "done"],
        [f"{name} 2", "[0, 5)", "5", "0", "0", "done"],
    ]
    assert [offsets(connection, planned.trigger, range_) for range_ in planned.ranges] == [
        list(range(4000)), visible, list(range(5))
    ]  # fmt: skip
    assert [row(connection, planned.trigger, number).next_offset for number in range(3)] == [4000, 4000, 5]
    found = batches.load(connection, batch_of(planned)).ranges
    assert [[virtual.created for virtual in range_.virtual_partitions] for range_ in found] == [
        [1000] * 4, [1000, 900, 899, 0], []
    ]  # fmt: skip

    remove(connection, planned.trigger, [999, 1000])
    connection.commit()
    replay = submit(batch_of(planned))
    assert replay.returncode == 0, replay.stderr[-3000:]
    assert [line[1:] for line in table_of(replay)] == [
        ["[0, 4000)", "2", "0", "3,998", "done"],
        ["[0, 4000)", "1", "0", f"{len(visible) - 1:,}", "done"],
        ["[0, 5)", "0", "0", "5", "done"],
    ]


def test_what_fails_is_named_and_the_next_attempt_reads_only_that(
    connection: Connection, topics: Topics, plan: Planner, submit: Submit, name: str
) -> None:
    topics.create(name)
    topics.produce(name, [b"{}"] * 1000)
    topics.produce(name, [b"rubbish"] * 1000)
    topics.produce(name, [b"{}"] * 2000)
    planned = plan(max_rejected_share=0.5)
    done = submit(batch_of(planned))
    assert done.returncode == 1
    assert [line[1:] for line in table_of(done)] == [["[0, 4000)", "-", "-", "-", "stalled"]]
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{name}: {name} 0 [1000, 2000) of [0, 4000): ")
    stalled = row(connection, planned.trigger)
    assert (stalled.next_offset, stalled.status, stalled.last_error) == (1000, "stalled", last)
    assert offsets(connection, planned.trigger, planned.ranges[0]) == [*range(1000), *range(2000, 4000)]
    before = everything(connection, planned.trigger)["work_orders"]
    without_breaker(connection, planned.trigger)
    again = submit(batch_of(planned))
    assert again.returncode == 0, again.stderr[-3000:]
    assert [line[1:] for line in table_of(again)] == [["[0, 4000)", "0", "1,000", "0", "done"]]
    after = row(connection, planned.trigger)
    assert (after.next_offset, after.status, after.last_error) == (4000, "active", None)
    assert set(before) < set(everything(connection, planned.trigger)["work_orders"])
    (range_,) = batches.load(connection, batch_of(planned)).ranges
    assert (range_.finished, range_.created, range_.rejected) == (True, 3000, 1000)
