"""Batches through a real Spark, each of which takes seconds, so every test looks at much."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from local_stack.stack import CHECKOUT, LocalStack
from support.batch_submission import batch_command
from support.definitions import define
from support.in_process_trigger import kept
from support.ingesting import everything, row, without_breaker
from support.topics import Topics
from support.work_orders import positions, remove
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.planning.planner import Plan, plan_batch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

Planner = Callable[..., Plan]

Submit = Callable[..., "CompletedProcess[str]"]

FAILING_READER = CHECKOUT / "tests" / "support" / "spark_apps" / "failing_reader.py"
# The JVM's failure must come when Python has taken messages already; a small stream would fail before it began.
MANY = 100_000


@pytest.fixture
def plan(stack: LocalStack, cluster: KafkaAdmin, name: str) -> Planner:
    def planned(**fields: Any) -> Plan:
        with connect(stack.database_url) as own:
            return run(plan_batch(own, cluster, define(name, **fields)))

    return planned


def batch_of(planned: Plan) -> int:
    assert planned.batch_id is not None
    return planned.batch_id


def offsets(connection: Connection, trigger: Trigger, range_: OffsetRange) -> list[int | None]:
    found = positions(connection, trigger, stream_name(range_.partition))
    connection.rollback()
    return found


def table_of(done: "CompletedProcess[str]") -> list[list[str]]:
    """Return the cells of the table that ends the log, without the seconds."""
    lines = done.stdout.splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith("partition "))
    cells = [re.split(r"\s{2,}", line) for line in lines[begin + 1 :]]
    return [[*line[:5], line[7]] for line in cells if len(line) == 8]


def rejections(connection: Connection, trigger: Trigger) -> list[tuple[int, int, str, bytes | None]]:
    found = connection.execute(
        """
        SELECT (request ->> 'partition')::integer, position, code, raw
        FROM workorders.rejections JOIN workorders.work_orders ON work_orders.id = rejections.work_order_id
        WHERE trigger_id = %s ORDER BY 1, 2
        """,
        (trigger.id,),
    ).fetchall()
    connection.rollback()
    return found


def test_every_visible_message_becomes_one_work_order_and_a_replay_adds_nothing(
    connection: Connection, topics: Topics, plan: Planner, submit: Submit, name: str
) -> None:
    topics.create(name, partitions=4)
    topics.produce(name, [b'{"n":%d}' % n for n in range(5)], key=b"patient-1", headers=[("a", b"1"), ("a", b"\xff")])
    topics.produce(name, [b"{}", b"rubbish", None, b"[1]", b"{}"], partition=1)
    topics.produce_aborted(name, [b'{"aborted":true}'] * 3, partition=2)
    topics.produce_committed(name, [b'{"committed":true}'] * 2, partition=2)
    topics.produce_aborted(name, [b'{"aborted":true}'] * 3, partition=3)
    # Two queries of Spark, one after the other.
    planned = plan(spark={"max_writers": 2})
    done = submit(batch_of(planned))
    assert done.returncode == 0, done.stderr[-3000:]
    assert table_of(done) == [
        [f"{name} 0", "[0, 5)", "5", "0", "0", "done"],
        [f"{name} 1", "[0, 5)", "2", "3", "0", "done"],
        [f"{name} 2", "[0, 7)", "2", "0", "0", "done"],
        [f"{name} 3", "[0, 4)", "0", "0", "0", "done"],
    ]
    assert [offsets(connection, planned.trigger, range_) for range_ in planned.ranges] == [
        [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [4, 5], []
    ]  # fmt: skip
    assert [(place[:2], place[3]) for place in rejections(connection, planned.trigger)] == [
        ((1, 1), b"rubbish"), ((1, 2), None), ((1, 3), b"[1]")
    ]  # fmt: skip
    first: Any = connection.execute(
        "SELECT body, request FROM workorders.dataclips JOIN workorders.work_orders USING (id) "
        "WHERE trigger_id = %s AND position = 0 AND request ->> 'partition' = '0'",
        (planned.trigger.id,),
    ).fetchone()
    assert first[0] == {"n": 0}
    assert first[1] == {
        "topic": name,
        "partition": 0,
        "offset": 0,
        "key": "patient-1",
        "timestamp": first[1]["timestamp"],
        "timestamp_type": "CreateTime",
        "headers": [["a", "1"], ["a", {"base64": "/w=="}]],
    }
    assert [row(connection, planned.trigger, number).next_offset for number in range(4)] == [5, 5, 7, 4]
    before = everything(connection, planned.trigger)

    replay = submit(batch_of(planned))
    assert replay.returncode == 0, replay.stderr[-3000:]
    assert [line[2:] for line in table_of(replay)] == [
        ["0", "0", "5", "done"],
        ["0", "0", "5", "done"],
        ["0", "0", "2", "done"],
        ["0", "0", "0", "done"],
    ]
    # A replay is an attempt like any other and takes the batch's next epoch: that, and nothing else.
    after = everything(connection, planned.trigger)
    assert after | {"kafka_batches": []} == before | {"kafka_batches": []}
    secrets = [connection.info.password]
    assert not any(secret in output for secret in secrets for output in (done.stdout, done.stderr, replay.stdout))


@pytest.mark.long
def test_no_more_partitions_than_max_writers_are_connected_to_postgres_at_once(
    stack: LocalStack, connection: Connection, topics: Topics, plan: Planner, *, name: str, tmp_path: Path
) -> None:
    """Spark has a core for each partition, and would connect for all of them."""
    topics.create(name, partitions=6)
    for partition in range(6):
        topics.produce(name, [b"{}"] * 10_000, partition=partition)
    batch_id = batch_of(plan(spark={"max_writers": 2}, max_bytes="1GiB"))
    command = batch_command(stack, batch_id, master="local[6]")
    samples = []
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, env=stack.environment(), stdout=log, stderr=log)
        while process.poll() is None:
            samples.append(sessions(connection))
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
    assert process.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    assert [len(found) for found in kept(connection, name).values()] == [10_000] * 6
    assert max(sample[f"workorders batch {batch_id}"] for sample in samples) == 2
    assert max(sample.total() for sample in samples) <= 2 + 2


def sessions(connection: Connection) -> Counter[str]:
    """Count the sessions of the package's programs by their names."""
    query = "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'workorders %'"
    names = Counter(name for (name,) in connection.execute(query))
    connection.rollback()
    return names


def test_partitions_that_fail_leave_the_others_committed_and_have_their_reasons_in_the_last_lines(
    connection: Connection, topics: Topics, plan: Planner, submit: Submit, name: str
) -> None:
    topics.create(name, partitions=3)
    for partition in range(3):
        topics.produce(name, [b"{}"] * 5, partition=partition)
    planned = plan()
    trigger = planned.trigger
    connection.execute(
        "UPDATE workorders.kafka_ledger SET topic_id = 'other' WHERE trigger_id = %s AND partition = 0", (trigger.id,)
    )
    connection.execute(
        "UPDATE workorders.kafka_ledger SET next_offset = 3 WHERE trigger_id = %s AND partition = 2", (trigger.id,)
    )
    connection.commit()
    done = submit(batch_of(planned))
    assert done.returncode == 1, done.stderr[-3000:]
    recreated = (
        f"{name}: {name} 0 [0, 5): the ledger follows another topic of that name now; nothing was committed. "
        "[WO-TOPIC-RECREATED]"
    )
    conflict = (
        f"{name}: {name} 2 [0, 5): the ledger is at 3 and not at the range's start; nothing was committed; save this "
        "log and report it, because no sequence of events leads here. [WO-LEDGER-CONFLICT]"
    )
    assert set(done.stdout.splitlines()[-2:]) == {recreated, conflict}
    assert [line[2:] for line in table_of(done)] == [
        ["-", "-", "-", "stalled"], ["5", "0", "0", "done"], ["-", "-", "-", "stalled"]
    ]  # fmt: skip
    assert [offsets(connection, trigger, range_) for range_ in planned.ranges] == [[], [0, 1, 2, 3, 4], []]
    entries = [row(connection, trigger, number) for number in range(3)]
    assert [(place.status, place.last_error, place.next_offset) for place in entries] == [
        ("stalled", recreated, 0), ("active", None, 5), ("stalled", conflict, 3)
    ]  # fmt: skip
    assert [place.next_attempt_at is not None for place in entries] == [True, False, True]
    assert [range_.finished for range_ in batches.load(connection, batch_of(planned)).ranges] == [False, True, False]


def test_an_attempt_with_an_older_epoch_changes_nothing(
    connection: Connection, topics: Topics, plan: Planner, submit: Submit, name: str
) -> None:
    topics.create(name)
    topics.produce(name, [b"{}"] * 5)
    planned = plan()
    old = ledger.take_epoch(connection, batch_of(planned))
    new = ledger.take_epoch(connection, batch_of(planned))
    connection.commit()
    before = everything(connection, planned.trigger)
    done = submit(batch_of(planned), "--epoch", str(old))
    assert done.returncode == 1, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == (
        f"{name}: {name} 0 [0, 5): this attempt (epoch {old}) was fenced by a newer one (epoch {new}); "
        f"nothing was committed here. There is nothing to do: the newer attempt commits it. [WO-FENCED]"
    )
    assert everything(connection, planned.trigger) == before
    assert not batches.load(connection, batch_of(planned)).ranges[0].finished


@pytest.mark.parametrize("submit", ["spark"], indirect=True)
def test_a_stream_that_the_jvm_cuts_off_commits_nothing_of_its_partition_and_all_of_the_others(
    connection: Connection, topics: Topics, plan: Planner, submit: Submit, name: str
) -> None:
    """A reader that fails in the JVM looks to Python like one that is done."""
    topics.create(name, partitions=2)
    topics.produce(name, [b"{}"] * MANY, partition=0)
    topics.produce(name, [b"{}"] * 5, partition=1)
    planned = plan(max_messages=2 * MANY, max_bytes="8GiB")
    broken, well = planned.ranges
    assert broken.end == MANY
    done = submit(batch_of(planned), application=FAILING_READER)
    assert "the JVM's reader broke" in done.stderr + done.stdout, done.stderr[-3000:]
    assert offsets(connection, planned.trigger, broken) == []
    assert row(connection, planned.trigger, 0).next_offset == 0
    assert done.returncode == 1
    assert offsets(connection, planned.trigger, well) == [0, 1, 2, 3, 4]
    assert [line[2:] for line in table_of(done)] == [["-", "-", "-", "stalled"], ["5", "0", "0", "done"]]
    last = done.stdout.splitlines()[-1]
    assert last.startswith(str(broken))
    assert last.endswith("nothing was committed there.")
    assert row(connection, planned.trigger, 0).last_error == last


def test_a_partition_of_which_too_much_is_rejected_stalls_and_the_others_are_committed(
    stack: LocalStack,
    connection: Connection,
    topics: Topics,
    plan: Planner,
    submit: Submit,
    *,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics.create(name, partitions=2)
    topics.produce(name, [b"rubbish"] * 20)
    topics.produce(name, [b"{}"] * 11 + [b"rubbish"] * 10, partition=1)
    planned = plan(max_rejected_share=0.5)
    done = submit(batch_of(planned))
    assert done.returncode == 1
    last = done.stdout.splitlines()[-1]
    assert "messages read (100%) were rejected" in last
    assert last.startswith(f"{name}: {name} 0 [0, 20): ")
    assert offsets(connection, planned.trigger, planned.ranges[0]) == []
    assert offsets(connection, planned.trigger, planned.ranges[1]) == list(range(21))
    stalled = row(connection, planned.trigger)
    assert (stalled.status, stalled.last_error) == ("stalled", last)

    connection.rollback()
    without_breaker(connection, planned.trigger)
    assert submit(batch_of(planned)).returncode == 0
    assert offsets(connection, planned.trigger, planned.ranges[0]) == list(range(20))


def sorted_offsets(connection: Connection, trigger: Trigger, range_: OffsetRange) -> list[int]:
    """Return the offsets with a work order; virtual partitions write them in any order."""
    return sorted(offset for offset in offsets(connection, trigger, range_) if offset is not None)


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
    planned = plan(virtual_partitions=4)
    visible = [*range(1000), *range(1001, 1901), *range(2101, 3000)]
    assert [(range_.start, range_.end) for range_ in planned.ranges] == [(0, 4000), (0, 4000), (0, 5)]
    done = submit(batch_of(planned))
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    assert table_of(done) == [
        [f"{name} 0", "[0, 4000)", "4,000", "0", "0", "done"],
        [f"{name} 1", "[0, 4000)", f"{len(visible):,}", "0", "0", "done"],
        [f"{name} 2", "[0, 5)", "5", "0", "0", "done"],
    ]
    assert [sorted_offsets(connection, planned.trigger, range_) for range_ in planned.ranges] == [
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
    planned = plan(virtual_partitions=4, max_rejected_share=0.5)
    done = submit(batch_of(planned))
    assert done.returncode == 1
    assert [line[1:] for line in table_of(done)] == [["[0, 4000)", "-", "-", "-", "stalled"]]
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{name}: {name} 0 [1000, 2000) of [0, 4000): ")
    stalled = row(connection, planned.trigger)
    assert (stalled.next_offset, stalled.status, stalled.last_error) == (1000, "stalled", last)
    assert sorted_offsets(connection, planned.trigger, planned.ranges[0]) == [*range(1000), *range(2000, 4000)]
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
