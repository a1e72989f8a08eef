"""Gaps in sequences: seen, alerted of once, skipped, released; and finished sequences dropped."""

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from local_stack.stack import LocalStack
from support.admission import BY_NUMBER, event, ids, limit, outcome, register
from workorders.core import triggers
from workorders.core.admission import gaps
from workorders.core.admission.gaps import GapRefusedError
from workorders.core.attribution import Attribution
from workorders.core.creation.work_orders import create_for
from workorders.core.exceptions import UnknownNameError
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

ADA = Attribution("ada", "a test")


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    rule = {**BY_NUMBER, "alert_above_parked": 2, "alert_after": "1h"}
    return register(connection, name, sequence=rule)


@pytest.fixture
def free(stack: LocalStack) -> Iterator[Connection]:
    """A connection without an open transaction."""
    with connect(stack.database_url, application_name="test", autocommit=True) as connection:
        yield connection


def come(connection: Connection, trigger: Trigger, *numbers: int, key: str = "order-7") -> None:
    with connection.transaction():
        create_for(connection, trigger, [event(None, key=key, number=number) for number in numbers])


def states(connection: Connection, trigger: Trigger) -> dict[int, str]:
    return {number: code or state for number, state, code in outcome(connection, trigger, "number")}


def key_of(connection: Connection, trigger: Trigger) -> UUID:
    return gaps.find(connection, trigger, "order-7")


def pass_time(connection: Connection, trigger: Trigger, interval: str) -> None:
    connection.execute(
        """
        UPDATE workorders.sequences
        SET parked_since = parked_since - %(by)s::interval, alerted_since = alerted_since - %(by)s::interval
        WHERE trigger_id = %(id)s
        """,
        {"by": interval, "id": trigger.id},
    )


def test_a_gap_is_listed_with_what_is_parked_behind_it(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 4, 5)
    come(free, trigger, 1, key="without a gap")
    (gap,) = gaps.list_gaps(free, trigger=trigger.name)
    assert (gap.trigger, gap.name, gap.high_water_mark, gap.next_parked, gap.parked) == (
        trigger.name,
        '"order-7"',
        1,
        4,
        2,
    )
    assert gap.parked_since is not None
    assert not gap.alerted


def test_the_gaps_of_a_workflow_and_of_a_trigger_are_the_oldest_of_a_bounded_number(
    free: Connection, trigger: Trigger
) -> None:
    for key in ("first", "second", "third"):
        come(free, trigger, 1, 3, key=key)
    of_workflow = gaps.list_gaps(free, workflow=trigger.workflow, limit=2)
    assert [gap.name for gap in of_workflow] == ['"first"', '"second"']
    assert gaps.list_gaps(free, trigger=trigger.name, limit=2) == of_workflow
    assert gaps.list_gaps(free, trigger="unheard-of", limit=2) == []
    assert gaps.list_gaps(free, workflow="unheard-of", limit=2) == []
    assert len(gaps.list_gaps(free, trigger=trigger.name, limit=2, max_read=1)) == 1


def test_a_parked_work_order_knows_its_number_and_what_is_missing_before_it(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 4, 6)
    first, next_, last = ids(free, trigger)
    assert gaps.find_before(free, first) is None
    before = gaps.find_before(free, last)
    assert before is not None
    assert (before.number, before.missing, before.next_id, before.parked) == (6, "2 to 3", next_, 2)
    gaps.skip(free, trigger, key_of(free, trigger), ADA)
    before = gaps.find_before(free, last)
    assert before is not None
    assert before.missing == "5"


def test_a_sequence_is_found_by_its_id_its_value_and_its_json(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 2)
    with free.transaction():
        create_for(free, trigger, [event(None, key=7, number=2)])
    key = key_of(free, trigger)
    assert {gaps.find(free, trigger, text) for text in ("order-7", '"order-7"', str(key))} == {key}
    assert gaps.find(free, trigger, "7") not in {key, None}
    for text in ("order-8", str(uuid4()), "{"):
        with pytest.raises(UnknownNameError, match=f"Trigger {trigger.name} has no sequence of that key"):
            gaps.find(free, trigger, text)


def test_skipping_lets_in_up_to_the_next_gap(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 4, 5, 8)
    assert gaps.skip(free, trigger, key_of(free, trigger), ADA) == [4, 5]
    assert states(free, trigger) == {1: "pending", 4: "pending", 5: "pending", 8: "parked"}
    (gap,) = gaps.list_gaps(free, trigger=trigger.name)
    assert (gap.high_water_mark, gap.next_parked, gap.parked) == (5, 8, 1)
    come(free, trigger, 6, 7)
    assert set(states(free, trigger).values()) == {"pending"}


def test_releasing_lets_everything_in_in_order(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 8, 1, 5, 4)
    assert gaps.release(free, trigger, key_of(free, trigger), ADA) == [4, 5, 8]
    assert set(states(free, trigger).values()) == {"pending"}
    assert gaps.list_gaps(free, trigger=trigger.name) == []
    come(free, trigger, 9)
    assert states(free, trigger)[9] == "pending"


def test_a_number_that_was_given_up_and_comes_nevertheless_is_late_and_no_duplicate(
    free: Connection, trigger: Trigger
) -> None:
    come(free, trigger, 1, 4, 6)
    gaps.release(free, trigger, key_of(free, trigger), ADA)
    come(free, trigger, 2, 3, 5)
    assert {number for number, code in states(free, trigger).items() if code == "late-in-sequence"} == {2, 3, 5}
    come(free, trigger, 4)
    assert states(free, trigger)[4] == "duplicate"


def test_a_decision_is_recorded_with_who_and_why(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 4, 6)
    key = key_of(free, trigger)
    gaps.release(free, trigger, key, Attribution("grace", "done"))
    gaps.drop(free, trigger, key, ADA)
    rows = free.execute(
        """
        SELECT kind, actor, reason, from_number, to_number, released FROM workorders.sequence_decisions
        WHERE trigger_id = %s ORDER BY id
        """,
        (trigger.id,),
    ).fetchall()
    assert rows == [
        ("release", "grace", "done", 1, 3, 1),
        ("release", "grace", "done", 4, 5, 1),
        ("drop", "ada", "a test", 6, None, 0),
    ]


def test_without_a_gap_there_is_nothing_to_decide(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1)
    key = key_of(free, trigger)
    for decide in (gaps.skip, gaps.release):
        with pytest.raises(GapRefusedError, match="has no gap: no work order is parked; nothing was changed"):
            decide(free, trigger, key, ADA)


def test_a_finished_sequence_can_be_dropped_and_begins_again(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 2)
    gaps.drop(free, trigger, key_of(free, trigger), ADA)
    with pytest.raises(UnknownNameError):
        key_of(free, trigger)
    come(free, trigger, 1)
    assert [state for _, state, _ in outcome(free, trigger, "number")] == ["pending"] * 3


def test_what_is_parked_is_never_dropped(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 3)
    with pytest.raises(GapRefusedError, match="has 1 parked work orders and cannot be dropped"):
        gaps.drop(free, trigger, key_of(free, trigger), ADA)
    come(free, trigger, 2)
    assert set(states(free, trigger).values()) == {"pending"}


def test_a_gap_is_alerted_of_once_when_it_is_too_old(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 3)
    assert gaps.claim_alerts(free, trigger) == []
    pass_time(free, trigger, "1 hour")
    (alert,) = gaps.claim_alerts(free, trigger)
    assert (alert.cleared, alert.high_water_mark, alert.parked) == (False, 1, 1)
    assert f"Trigger {trigger.name}: sequence {alert.key} has a gap above number 1 since " in alert.sentence
    assert "order-7" not in alert.sentence
    assert gaps.claim_alerts(free, trigger) == []


def test_a_gap_is_alerted_of_when_too_much_is_parked(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 3, 4)
    assert gaps.claim_alerts(free, trigger) == []
    come(free, trigger, 5)
    assert [alert.parked for alert in gaps.claim_alerts(free, trigger)] == [3]


def test_a_closed_gap_is_reported_once(free: Connection, trigger: Trigger) -> None:
    come(free, trigger, 1, 3, 4, 5)
    gaps.claim_alerts(free, trigger)
    come(free, trigger, 2)
    (alert,) = gaps.claim_alerts(free, trigger)
    assert alert.cleared
    assert alert.sentence.endswith("is closed; its high-water mark is 5.")
    assert gaps.claim_alerts(free, trigger) == []
    assert gaps.list_gaps(free, trigger=trigger.name) == []


def test_a_trigger_without_sequences_has_no_alerts(free: Connection, name: str) -> None:
    assert gaps.claim_alerts(free, register(free, f"{name}-plain")) == []


def test_released_work_orders_count_for_the_day(free: Connection, trigger: Trigger) -> None:
    limit(free, trigger.workflow, max_per_day=3)
    limited = triggers.find(free, trigger.name)
    come(free, limited, 1, 3)
    gaps.release(free, limited, key_of(free, limited), ADA)
    come(free, limited, 4, 5)
    assert states(free, limited) == {1: "pending", 3: "pending", 4: "pending", 5: "run-limit"}
