"""Orphaned bulk jobs are resumed, each by one worker."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest

from local_stack.stack import LocalStack
from support.admission import limit
from support.runs import finish_all
from support.work_orders import accepted_range
from workorders.core import triggers
from workorders.core.admission import limits
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.bulk.runner import ResumeResult
from workorders.core.creation.work_orders import create_for
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration

A_MINUTE, AN_HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def trigger(connection: Connection, name: str) -> Iterator[Trigger]:
    """Six work orders that failed; no other test's jobs are left, and none of this one's afterwards."""
    connection.execute("DELETE FROM workorders.bulk_jobs")
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    create_for(connection, trigger, accepted_range("s", 0, 6))
    connection.commit()
    finish_all(connection, name, "failed")
    yield trigger
    connection.rollback()
    connection.execute("DELETE FROM workorders.bulk_jobs")
    connection.commit()


def written(connection: Connection, name: str, kind: str = "rerun", *, ago: timedelta = A_MINUTE) -> int:
    """Write a job down, as `--detach` does, some time ago."""
    job = jobs.create_job(connection, kind, Filter(trigger=name), Attribution("ada", "a test"))
    age(connection, job.id, ago)
    return job.id


def age(connection: Connection, job_id: int, ago: timedelta) -> None:
    connection.execute(
        """
        UPDATE workorders.bulk_jobs SET created_at = created_at - %(ago)s, heartbeat_at = heartbeat_at - %(ago)s
        WHERE id = %(id)s
        """,
        {"id": job_id, "ago": ago},
    )
    connection.commit()


def states(connection: Connection, name: str) -> dict[str, int]:
    connection.rollback()
    return work_orders.count_by_state(connection, Filter(trigger=name))


def test_a_job_for_later_is_processed(connection: Connection, trigger: Trigger, name: str) -> None:
    first, second = written(connection, name), written(connection, name, "cancel")
    worked = runner.resume_orphaned(connection, step=2)
    assert [(job.id, job.state, job.done) for job in worked.jobs] == [(first, "finished", 6), (second, "finished", 6)]
    assert states(connection, name) == {"cancelled": 6}
    assert runner.resume_orphaned(connection) == ResumeResult()


def test_a_job_is_left_to_who_made_it_just_now_and_to_who_works_at_it(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    written(connection, name, ago=timedelta(0))
    taken = written(connection, name)
    jobs.claim(connection, taken, uuid4())
    connection.commit()
    assert runner.find_orphaned(connection) == []


def test_a_job_whose_worker_fell_silent_is_taken_over(connection: Connection, trigger: Trigger, name: str) -> None:
    job_id = written(connection, name)
    jobs.claim(connection, job_id, uuid4())
    age(connection, job_id, AN_HOUR)
    assert [job.id for job in runner.resume_orphaned(connection).jobs] == [job_id]


def test_two_that_look_at_once_never_work_at_one_job(
    stack: LocalStack, connection: Connection, trigger: Trigger, name: str
) -> None:
    wanted = [written(connection, name) for _ in range(6)]

    def look(_: int) -> list[Job]:
        with connect(stack.database_url) as own:
            return runner.resume_orphaned(own, step=2).jobs

    with ThreadPoolExecutor(3) as pool:
        worked = [job.id for jobs_ in pool.map(look, range(3)) for job in jobs_]
    assert sorted(worked) == wanted
    rows = connection.execute(
        "SELECT count(*) FROM workorders.runs WHERE workflow_id = %s AND actor = 'ada'", (trigger.workflow_id,)
    ).fetchone()
    # The first job reran all; for the others each of them waited already.
    assert rows == (6,)


def test_a_job_that_waits_too_long_for_a_lock_is_reported_continues_later_and_delays_none_behind_it(
    stack: LocalStack, connection: Connection, trigger: Trigger, name: str
) -> None:
    limit(connection, name, max_waiting=100, on_reached="wait")
    rerun, cancel = written(connection, name), written(connection, name, "cancel")
    with connect(stack.database_url) as other:
        # A session that creates work orders of the workflow locks its count for a moment.
        limits.lock_count(other, trigger.workflow_id)
        connection.execute("SET lock_timeout = 100")
        connection.commit()
        worked = runner.resume_orphaned(connection)
    assert ([job.id for job in worked.jobs], len(worked.failures)) == ([cancel], 1)
    assert worked.failures[0].startswith(f"Bulk operation {rerun} waits for the next run: ")
    connection.rollback()
    assert (jobs.get_job(connection, rerun).state, "lock" in str(jobs.get_job(connection, rerun).error)) == (
        "waiting",
        True,
    )
    age(connection, rerun, A_MINUTE)
    assert [(job.id, job.state) for job in runner.resume_orphaned(connection).jobs] == [(rerun, "finished")]


def test_a_job_that_the_database_can_never_do_fails_and_holds_up_none_behind_it(
    connection: Connection, trigger: Trigger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(connection: Connection, *_: object, **__: object) -> None:
        connection.execute("SELECT repeat('x', 2000000000)")

    monkeypatch.setattr(runner, "rerun_work_orders", too_much)
    rerun, cancel = written(connection, name), written(connection, name, "cancel")
    worked = runner.resume_orphaned(connection)
    assert ([job.id for job in worked.jobs], len(worked.failures)) == ([cancel], 1)
    assert worked.failures[0].startswith(f"Bulk operation {rerun} failed: requested length too large")
    connection.rollback()
    assert jobs.get_job(connection, rerun).state == "failed"
    # Left to a person, and not tried by the next run again.
    age(connection, rerun, AN_HOUR)
    assert runner.find_orphaned(connection) == []


def test_a_job_that_fails_is_reported_and_left_to_a_person(connection: Connection, trigger: Trigger, name: str) -> None:
    failing, fine = written(connection, name), written(connection, name, "cancel")
    connection.execute(
        "UPDATE workorders.bulk_jobs SET filter = jsonb_set(filter, '{trigger}', '\"missing\"') WHERE id = %s",
        (failing,),
    )
    connection.commit()
    worked = runner.resume_orphaned(connection)
    assert [job.id for job in worked.jobs] == [fine]
    (failure,) = worked.failures
    assert failure.startswith(f"Bulk operation {failing} failed: No trigger missing")
    assert runner.find_orphaned(connection) == []
