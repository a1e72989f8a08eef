"""Each clause of the oracle sees what it is there for: everything is well first, then one thing is broken by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults import contents, oracle
from faults.oracle import Ends, Gone, Verdict
from local_stack.stack import LocalStack
from support.ingesting import attempt, no_proof, partition_of, plan, same_log
from support.sampler import PartitionSnapshot
from support.work_orders import accepted, rejected, remove
from workorders.core.creation.work_orders import create_for
from workorders.core.items import Item, Rejection
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration

MESSAGES = 50
ENDS = Ends({0: MESSAGES}, {0: MESSAGES})


def item(stream: str, sequence: int, producer: int = 1) -> Item:
    kind, value = contents.kind(sequence), contents.value(producer, sequence)
    if kind == contents.ACCEPTED:
        return accepted(stream, sequence, value or b"")
    return rejected(stream, sequence, value)._replace(rejection=Rejection(kind, "a test"))


@pytest.fixture
def check(stack: LocalStack, connection: Connection, trigger: Trigger, tmp_path: Path) -> Callable[..., Verdict]:
    """Ingests what a producer has sent, and returns the verdict."""
    range_ = OffsetRange(partition_of(trigger.name), 0, MESSAGES)
    batch_id = plan(connection, trigger, range_)
    stream = stream_name(range_.partition)
    ingest(
        connection,
        attempt(connection, batch_id),
        [item(stream, number) for number in range(MESSAGES)],
        no_proof,
        same_log,
    )
    journal = tmp_path / "journal"
    journal.write_text("".join(f"1 {number} 0 {number}\n" for number in range(MESSAGES)) + "end\n", encoding="ascii")
    oracle.remember(stack.database_url, trigger.name, [journal])

    def checked(*, ends: Ends = ENDS, **changes: Any) -> Verdict:
        connection.commit()
        arguments: dict[str, Any] = {"snapshots": [], "sampled": [], "stalled": set(), **changes}
        return oracle.check(stack.database_url, trigger.name, ends=ends, **arguments)

    return checked


def counts(verdict: Verdict) -> dict[str, int]:
    """Return the counts that are not 0."""
    found = {name: getattr(verdict, name) for name in ("lost", "duplicated", "disordered", "strangers", "wrong")} | {
        "contradictions": len(verdict.contradictions)
    }
    return {name: count for name, count in found.items() if count}


def test_a_whole_ingest_keeps_every_promise(check: Callable[..., Verdict]) -> None:
    verdict = check(snapshots=[PartitionSnapshot(0, MESSAGES, MESSAGES, 0), PartitionSnapshot(0, 0, 0, 0)])
    assert verdict.kept
    assert verdict.messages == MESSAGES


def test_a_work_order_that_is_missing_is_lost(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    remove(connection, trigger, [MESSAGES - 1])
    assert counts(check()) == {"lost": 1}


def test_a_message_ingested_under_two_topic_ids_is_doubled(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    connection.execute(
        """
        WITH stream AS (
            INSERT INTO workorders.source_streams (trigger_id, name)
            VALUES (%(trigger)s, %(topic)s || '/0@another-id') RETURNING id
        )
        INSERT INTO workorders.work_orders (id, position, trigger_id, workflow_id, stream_id, state)
        SELECT gen_random_uuid(), 3, %(trigger)s, %(workflow)s, stream.id, 'rejected' FROM stream
        """,
        {"trigger": trigger.id, "topic": trigger.name, "workflow": trigger.workflow_id},
    )
    verdict = check()
    assert verdict.duplicated == 1
    forget_streams(connection, trigger)


def test_one_content_at_two_places_is_doubled(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    connection.execute(
        """
        UPDATE workorders.dataclips SET body = (SELECT body FROM workorders.dataclips JOIN workorders.work_orders
            USING (id) WHERE trigger_id = %(trigger)s AND position = 0)
        WHERE id = (SELECT id FROM workorders.work_orders WHERE trigger_id = %(trigger)s AND position = 49)
        """,
        {"trigger": trigger.id},
    )
    verdict = check()
    assert verdict.duplicated == 1
    assert verdict.wrong == 1


def test_ids_that_do_not_grow_with_offsets_are_out_of_order(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    swap(connection, trigger, 10, 11)
    verdict = check()
    assert verdict.disordered > 0
    assert verdict.wrong == 2


def test_a_work_order_of_a_message_that_was_not_sent_is_a_stranger(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    connection.execute(
        "UPDATE workorders.work_orders SET position = 60 WHERE trigger_id = %s AND position = 49", (trigger.id,)
    )
    assert counts(check()) == {"lost": 1, "strangers": 1}


def test_another_reason_of_rejection_is_wrong(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    connection.execute(
        "UPDATE workorders.rejections SET code = 'too-large' WHERE work_order_id = "
        "(SELECT id FROM workorders.work_orders WHERE trigger_id = %s AND position = 3)",
        (trigger.id,),
    )
    assert counts(check()) == {"wrong": 1}


@pytest.mark.parametrize("ends", [Ends({0: 51}, {0: 50}), Ends({0: 50}, {0: 49}), Ends({0: 50}, {})])
def test_a_ledger_that_is_not_at_the_end_of_log_and_group_contradicts_them(
    check: Callable[..., Verdict], ends: Ends
) -> None:
    assert counts(check(ends=ends)) == {"contradictions": 1}


@pytest.mark.parametrize("behind", [19, 21])
def test_an_instant_with_too_few_or_too_many_work_orders_is_a_contradiction(
    check: Callable[..., Verdict], behind: int
) -> None:
    assert counts(check(snapshots=[PartitionSnapshot(0, 20, behind, 0)])) == {"contradictions": 1}


def test_what_the_sampler_saw_counts(check: Callable[..., Verdict]) -> None:
    assert counts(check(sampled=["the group is at 6"])) == {"contradictions": 1}


def test_of_a_partition_that_should_be_stalled_only_what_is_before_its_ledger_is_due(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    connection.execute(
        "UPDATE workorders.kafka_ledger SET next_offset = 40, status = 'stalled' WHERE trigger_id = %s", (trigger.id,)
    )
    remove(connection, trigger, range(40, MESSAGES))
    verdict = check(stalled={0})
    assert verdict.kept
    assert verdict.messages == 40


def test_a_partition_that_should_be_stalled_and_is_not_is_a_contradiction(check: Callable[..., Verdict]) -> None:
    assert counts(check(stalled={0})) == {"contradictions": 1}


def test_what_kafka_lost_and_an_operator_left_behind_is_not_due(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    remove(connection, trigger, range(10, 20))
    assert counts(check()) == {"lost": 10}
    verdict = check(
        gone=[Gone(0, 10, 20)], snapshots=[PartitionSnapshot(0, MESSAGES, 40, 0), PartitionSnapshot(0, 15, 10, 0)]
    )
    assert verdict.kept
    assert verdict.messages == 40
    assert counts(check(gone=[Gone(0, 10, 21)])) == {"strangers": 1}


def test_the_same_offsets_of_another_log_are_other_messages(
    check: Callable[..., Verdict], stack: LocalStack, connection: Connection, trigger: Trigger, *, tmp_path: Path
) -> None:
    stream = f"{trigger.name}/0@another-id"
    create_for(connection, trigger, [item(stream, number, producer=2) for number in range(10)], fresh=True)
    assert check().duplicated == 10
    journal = tmp_path / "second"
    journal.write_text("".join(f"2 {number} 0 {number}\n" for number in range(10)) + "end\n", encoding="ascii")
    oracle.remember(stack.database_url, trigger.name, [journal], log=1)
    stream_id = streams(connection, trigger)[1]
    verdict = check(snapshots=[PartitionSnapshot(0, 10, 10, 0, stream_id), PartitionSnapshot(0, 5, 5, 0, stream_id)])
    assert verdict.kept
    assert verdict.messages == MESSAGES + 10
    assert counts(check(snapshots=[PartitionSnapshot(0, 10, 9, 0, stream_id)])) == {"contradictions": 1}


def test_a_hole_in_the_journal_is_no_verdict(
    check: Callable[..., Verdict], connection: Connection, trigger: Trigger
) -> None:
    connection.execute("DELETE FROM faults.sent WHERE trigger = %s AND sequence = 7", (trigger.name,))
    with pytest.raises(AssertionError, match="has a hole"):
        check()


def swap(connection: Connection, trigger: Trigger, one: int, other: int) -> None:
    """Let two work orders have each other's offset."""
    for old, new in ((one, -1), (other, one), (-1, other)):
        connection.execute(
            "UPDATE workorders.work_orders SET position = %s WHERE trigger_id = %s AND position = %s",
            (new, trigger.id, old),
        )


def streams(connection: Connection, trigger: Trigger) -> list[int]:
    """Return the numbers of a trigger's streams, oldest first."""
    rows = connection.execute(
        "SELECT id FROM workorders.source_streams WHERE trigger_id = %s ORDER BY id", (trigger.id,)
    ).fetchall()
    return [number for (number,) in rows]


def forget_streams(connection: Connection, trigger: Trigger) -> None:
    """Remove what a test has added without dataclip and rejection."""
    connection.execute(
        "DELETE FROM workorders.work_orders WHERE trigger_id = %s AND stream_id IN "
        "(SELECT id FROM workorders.source_streams WHERE name LIKE '%%@another-id')",
        (trigger.id,),
    )
    connection.commit()
