"""Who asks for a worker, and for whom a turn ends."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from support.turns import ask
from workorders.core.bulk import cancel
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import claiming, fair_share

pytestmark = pytest.mark.integration

Make = Callable[..., Executing]


@pytest.fixture(autouse=True)
def nobody_asks(connection: Connection) -> None:
    """What other tests have asked for."""
    connection.execute("DELETE FROM workorders.turns")
    connection.commit()


@pytest.fixture
def make(stack: LocalStack, name: str) -> Make:
    """Makes workflows of this test."""
    return lambda role, **fields: Executing(stack.database_url, f"{name}-{role}", **fields)


@pytest.fixture
def busy(make: Make) -> Executing:
    """The workflow whose turn it is."""
    return make("busy")


def asking(connection: Connection, executing: Executing, *, seconds: float = 60.0) -> str:
    """Let a workflow with a work order ask, so many seconds ago."""
    executing.create([{}])
    ask(connection, executing.name, seconds_ago=seconds)
    return executing.name


def given_to(connection: Connection, executing: Executing, turn: str = "turn") -> str | None:
    found = fair_share.give_up(connection, executing.workflow, turn)
    connection.commit()
    return found


def test_one_turn_ends_for_a_workflow_that_asks_and_no_second_one_beside_it(
    connection: Connection, busy: Executing, make: Make
) -> None:
    assert given_to(connection, busy) is None
    waiting = asking(connection, make("waiting"))
    assert given_to(connection, busy) == waiting
    assert given_to(connection, make("another")) is None
    connection.execute("UPDATE workorders.turns SET given_at = given_at - interval '31 s' WHERE given_at IS NOT NULL")
    assert given_to(connection, busy) == waiting
    connection.execute("UPDATE workorders.turns SET given_at = given_at - interval '31 s' WHERE given_at IS NOT NULL")
    assert given_to(connection, busy) is None


def test_a_request_counts_only_after_the_time_that_a_start_takes_and_never_for_its_own_workflow(
    connection: Connection, busy: Executing, make: Make
) -> None:
    asking(connection, busy)
    asking(connection, make("waiting"), seconds=1)
    assert given_to(connection, busy) is None


def test_no_turn_ends_for_a_workflow_at_which_somebody_works_unless_that_one_fell_silent(
    connection: Connection, busy: Executing, make: Make
) -> None:
    other = make("other")
    asking(connection, other)
    other.create([{}])
    claiming.claim(connection, other.workflow, limit=1, group_id=uuid4())
    assert given_to(connection, busy) is None
    other.claim_and_fall_silent()
    connection.execute(
        "UPDATE workorders.runs SET heartbeat_at = now() - interval '1 day' WHERE workflow_id = %s", [other.workflow.id]
    )
    assert given_to(connection, busy) == other.name


def test_no_turn_ends_for_a_workflow_with_nothing_to_claim_or_one_that_had_its_turn(
    connection: Connection, busy: Executing, make: Make
) -> None:
    cancelled, served = make("cancelled"), make("served")
    asking(connection, cancelled)
    asking(connection, served)
    (row,) = cancelled.rows("SELECT id FROM workorders.work_orders WHERE workflow_id = %(workflow_id)s")
    cancel.cancel_work_orders(connection, list(row), who="a test", why="a test")
    fair_share.had(connection, served.workflow)
    assert given_to(connection, busy) is None
    assert asking(connection, served) == given_to(connection, busy)


def test_a_new_request_is_given_no_turn_sooner_than_the_last_one_unless_that_was_answered_or_long_ago(
    connection: Connection, busy: Executing, make: Make
) -> None:
    other = make("other")
    assert asking(connection, other) == given_to(connection, busy)
    asking(connection, other)
    assert given_to(connection, busy) is None
    connection.execute("UPDATE workorders.turns SET given_at = given_at - interval '11 minutes', given = 9")
    assert asking(connection, other) == given_to(connection, busy)
    fair_share.had(connection, other.workflow)
    assert asking(connection, other) == given_to(connection, busy)


def test_of_two_turns_that_end_at_once_only_one_ends_for_a_request(
    stack: LocalStack, connection: Connection, busy: Executing, make: Make
) -> None:
    waiting = asking(connection, make("waiting"))
    with connect(stack.database_url) as other:
        assert fair_share.give_up(connection, busy.workflow, "turn") == waiting
        assert fair_share.give_up(other, make("another").workflow, "turn") is None


def test_all_tasks_that_share_a_turn_know_that_it_was_given_up(
    connection: Connection, busy: Executing, make: Make
) -> None:
    assert not fair_share.was_given_up(connection, busy.workflow, "first")
    asking(connection, make("waiting"))
    given_to(connection, busy, "first")
    assert fair_share.was_given_up(connection, busy.workflow, "first")
    assert not fair_share.was_given_up(connection, busy.workflow, "second")
    ask(connection, busy.name)
    fair_share.had(connection, busy.workflow)
    assert fair_share.was_given_up(connection, busy.workflow, "first")


def test_asking_for_a_workflow_that_is_not_registered_writes_nothing(connection: Connection) -> None:
    ask(connection, "unheard-of")
    assert connection.execute("SELECT count(*) FROM workorders.turns").fetchone() == (0,)
