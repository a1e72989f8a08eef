"""Reruns of a workflow with limits: as many as it has capacity for, and then the job waits."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.admission import events, ids, limit, register, wait_for_lock
from support.runs import finish_all
from support.work_orders import rejected
from workorders.core import triggers
from workorders.core.bulk import capacity, jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.creation.work_orders import create_for
from workorders.core.exceptions import LimitReachedError
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

LIMITS = [(which, on_reached) for which in ("max_waiting", "max_per_day") for on_reached in ("wait", "reject")]


def failed(connection: Connection, name: str, inputs: str) -> Trigger:
    """Return a trigger whose work orders have failed."""
    trigger = register(connection, name)
    create_for(connection, trigger, events(inputs), fresh=True)
    connection.commit()
    finish_all(connection, name, "failed")
    return trigger


def limited(connection: Connection, name: str, **limits: Any) -> Trigger:
    limit(connection, name, **limits)
    connection.commit()
    return triggers.find(connection, name)


def made(connection: Connection, wanted: Filter) -> Job:
    job = jobs.create_job(connection, "rerun", wanted, actor="ada", reason="a test")
    connection.commit()
    return job


def rerun(connection: Connection, wanted: Filter) -> Job:
    return runner.run_job(connection, made(connection, wanted).id, step=2)


def states(connection: Connection, name: str) -> dict[str, int]:
    connection.rollback()
    return work_orders.count_by_state(connection, Filter(trigger=name))


def tomorrow(connection: Connection, trigger: Trigger) -> None:
    connection.execute(
        "UPDATE workorders.workflow_counts SET day = day - 1 WHERE workflow_id = %s", (trigger.workflow_id,)
    )
    connection.commit()


@pytest.mark.parametrize(("which", "on_reached"), LIMITS)
def test_a_bulk_rerun_goes_as_far_as_there_is_room_and_waits_with_a_sentence(
    connection: Connection, name: str, which: str, on_reached: str
) -> None:
    trigger = failed(connection, name, "abcde")
    limited(connection, name, on_reached=on_reached, **{which: 3})
    job = rerun(connection, Filter(trigger=name))
    assert (job.state, job.done, dict(job.skipped)) == ("waiting", 3, {})
    assert job.error is not None
    assert job.error.startswith(f"Workflow {name} takes no more runs now: its limit is 3 ")
    assert states(connection, name) == {"failed": 2, "requeued": 3}
    # Nothing is looked at twice, and nothing is passed over.
    finish_all(connection, name, "success")
    if which == "max_per_day":
        again = runner.run_job(connection, job.id)
        assert (again.state, again.done) == ("waiting", 3)
        tomorrow(connection, trigger)
    ended = runner.run_job(connection, job.id)
    assert (ended.state, ended.done, ended.error) == ("finished", 5, None)
    assert states(connection, name) == {"success": 3, "requeued": 2}


def test_a_rerun_leaves_no_more_room_than_there_is_to_new_events(connection: Connection, name: str) -> None:
    trigger = failed(connection, name, "abc")
    trigger = limited(connection, name, max_waiting=4, on_reached="wait")
    rerun(connection, Filter(trigger=name))
    with connection.transaction():
        create_for(connection, trigger, events("d", 3), fresh=True)
    with pytest.raises(LimitReachedError), connection.transaction():
        create_for(connection, trigger, events("e", 4), fresh=True)


def test_who_creates_meanwhile_waits_for_the_step_and_finds_less_room(
    stack: LocalStack, connection: Connection, other: Connection, name: str
) -> None:
    trigger = failed(connection, name, "ab")
    trigger = limited(connection, name, max_waiting=2, on_reached="wait")
    create_for(other, trigger, events("c", 2), fresh=True)
    job = made(connection, Filter(trigger=name))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(runner.run_job, connection, job.id)
        wait_for_lock(stack.database_url, connection)
        other.commit()
        ended = waiting.result(30)
    assert (ended.state, ended.done) == ("waiting", 1)
    assert states(connection, name) == {"failed": 1, "pending": 1, "requeued": 1}


@pytest.mark.parametrize("on_reached", ["wait", "reject"])
def test_of_rejected_ones_as_many_are_let_in_as_fit(connection: Connection, name: str, on_reached: str) -> None:
    register(connection, name)
    create_for(connection, limited(connection, name, max_waiting=1), events("abcd"), fresh=True)
    connection.commit()
    limited(connection, name, max_waiting=3, on_reached=on_reached)
    job = rerun(connection, Filter(trigger=name, state="rejected"))
    assert (job.state, job.done) == ("waiting", 2)
    assert states(connection, name) == {"pending": 1, "requeued": 2, "rejected": 1}
    finish_all(connection, name)
    assert runner.run_job(connection, job.id).state == "finished"
    assert states(connection, name) == {"success": 3, "requeued": 1}


def test_a_workflow_without_limits_is_not_held_up_by_itself_or_by_its_own_skipped_ones(
    connection: Connection, name: str
) -> None:
    trigger = failed(connection, name, "ab")
    create_for(connection, trigger, [*events("cd", 2), rejected("s", 4)], fresh=True)
    connection.commit()
    limited(connection, name, max_waiting=4, on_reached="wait")
    job = rerun(connection, Filter(trigger=name))
    # Runs that wait already use none of the job's capacity; a rejected work order may need some, and comes last.
    assert (job.done, dict(job.skipped)) == (2, {"not finished": 2})
    assert job.state == "waiting"
    limited(connection, name)
    ended = runner.run_job(connection, job.id)
    assert (ended.state, dict(ended.skipped)) == ("finished", {"not finished": 2, "still rejected or parked": 1})


@pytest.mark.parametrize("which", ["max_waiting", "max_per_day"])
def test_one_work_order_alone_goes_beyond_a_limit_that_rejects_and_is_counted(
    connection: Connection, name: str, which: str
) -> None:
    trigger = failed(connection, name, "ab")
    trigger = limited(connection, name, **{which: 1})
    create_for(connection, trigger, events("cd", 2), fresh=True)
    connection.commit()
    ended, _, _, refused = ids(connection, trigger)
    for id_ in (ended, refused):
        assert rerun(connection, Filter(selected=(id_,))).state == "finished"
    assert states(connection, name) == {"failed": 1, "pending": 1, "requeued": 2}
    assert counted(connection, trigger) == 3


def test_one_work_order_alone_waits_for_a_limit_that_waits(connection: Connection, name: str) -> None:
    trigger = failed(connection, name, "ab")
    trigger = limited(connection, name, max_waiting=1, on_reached="wait")
    first, second = ids(connection, trigger)
    assert rerun(connection, Filter(selected=(first,))).state == "finished"
    job = rerun(connection, Filter(selected=(second,)))
    assert (job.state, job.done) == ("waiting", 0)
    finish_all(connection, name)
    assert runner.run_job(connection, job.id).done == 1


def test_a_rerun_counts_among_the_runs_of_the_day(connection: Connection, name: str) -> None:
    trigger = failed(connection, name, "ab")
    trigger = limited(connection, name, max_per_day=5)
    rerun(connection, Filter(trigger=name))
    assert counted(connection, trigger) == 2
    assert create_for(connection, trigger, events("cdef", 2), fresh=True).rejected_by_rule == 1


def test_a_dry_run_reports_how_much_capacity_there_is(connection: Connection, name: str) -> None:
    trigger = failed(connection, name, "ab")
    assert capacity.capacity_for(connection, Filter(trigger=name)) == []
    limited(connection, name, max_waiting=3, max_per_day=2, on_reached="wait")
    for wanted in (Filter(trigger=name), Filter(workflow=name), Filter(selected=(ids(connection, trigger)[0],))):
        (found,) = capacity.capacity_for(connection, wanted)
        assert (found.workflow, found.capacity.waiting, found.capacity.today) == (name, 3, 2)
        assert str(found) == (
            f"Workflow {name} takes 2 more runs now, by its limits of 3 waiting and 2 a day (UTC); a rerun of "
            f"more does as many and then waits for capacity."
        )


def counted(connection: Connection, trigger: Trigger) -> int:
    row = connection.execute(
        "SELECT admitted FROM workorders.workflow_counts WHERE workflow_id = %s", (trigger.workflow_id,)
    ).fetchone()
    assert row is not None
    return int(row[0])
