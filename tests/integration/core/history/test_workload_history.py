"""What is counted of the work of the last hours, and how often."""

from datetime import UTC, datetime, timedelta

import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from support.outbox import new_outbox
from workorders.core.history import state_counts, workload_history
from workorders.core.history.workload_history import WorkHistory
from workorders.core.maintenance.refresh import refresh_history
from workorders.core.postgres.connection import connect

pytestmark = pytest.mark.integration


@pytest.fixture
def database_url(stack: LocalStack) -> str:
    """A database whose work orders no one else counts."""
    return new_outbox(stack).database_url


@pytest.fixture
def work(database_url: str, name: str) -> Executing:
    return Executing(database_url, name)


def create(work: Executing, number: int, *, minutes_ago: float = 0) -> None:
    """Create work orders whose transaction began some time ago."""
    with connect(work.url) as connection:
        known = [id_ for (id_,) in connection.execute("SELECT id FROM workorders.work_orders")]
        work.create([{}] * number)
        connection.execute(
            "UPDATE workorders.work_orders SET created_at = created_at - %s WHERE id <> ALL (%s::uuid[])",
            [timedelta(minutes=minutes_ago), known],
        )


def counted(work: Executing) -> None:
    with connect(work.url) as connection:
        state_counts.refresh_counts(connection, even_if_recent=True)
        workload_history.record(connection)


def history(work: Executing) -> WorkHistory | None:
    with connect(work.url) as connection:
        return workload_history.list_histories(connection, datetime.now(UTC)).of_workflow(work.name)


def created(work: Executing) -> int:
    found = history(work)
    assert found is not None
    return sum(filter(None, found.created))


def test_the_first_count_goes_back_for_six_hours_and_knows_what_waits(work: Executing) -> None:
    create(work, 2)
    create(work, 3, minutes_ago=120)
    create(work, 4, minutes_ago=420)
    counted(work)
    found = history(work)
    assert found is not None
    assert created(work) == 5
    assert 3 in found.created
    assert [number for number in found.waiting if number is not None] == [9]


def test_a_further_count_adds_what_was_committed_since_and_nothing_twice(work: Executing) -> None:
    create(work, 2)
    counted(work)
    counted(work)
    assert created(work) == 2
    create(work, 3, minutes_ago=11)
    create(work, 40, minutes_ago=60)  # so long before the newest interval that it is not read again
    counted(work)
    assert created(work) == 5


def test_a_trigger_without_work_orders_is_known_to_have_none(database_url: str, work: Executing) -> None:
    assert history(work) is None, "nothing was counted"
    create(Executing(database_url, f"{work.name}-busy"), 1)
    with connect(database_url) as connection:
        assert refresh_history(connection).counted
        found = workload_history.list_histories(connection, datetime.now(UTC)).of_trigger(work.name)
    assert found is not None
    assert (sum(filter(None, found.created)), found.created_per_minute) == (0, 0)


def test_counts_of_another_day_are_forgotten(database_url: str, work: Executing) -> None:
    with connect(database_url) as connection:
        connection.execute(
            "INSERT INTO workorders.workload_history SELECT now() - days * interval '1 day', 1, 1, now(), 5, 0 "
            "FROM generate_series(0.5, 2.5, 1) AS days"
        )
    counted(work)
    with connect(database_url) as connection:
        row = connection.execute("SELECT count(*) FROM workorders.workload_history WHERE created = 5").fetchone()
    assert row == (1,)
