from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from local_stack.stack import LocalStack
from support.runs import claim, finish_all
from support.work_orders import REQUEST, accepted, accepted_range, rejected
from workorders.core import triggers, workflows
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job, JobUnavailableError
from workorders.core.creation.work_orders import create_for
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError, UnknownNameError
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.history.runs import runs_of
from workorders.core.items import Item, Rejection
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs.lifecycle import FinalState
from workorders.core.triggers import Trigger
from workorders.core.workers import add_worker

pytestmark = pytest.mark.integration


@pytest.fixture
def other_connection(stack: LocalStack) -> Iterator[Connection]:
    with connect(stack.database_url, application_name="test") as connection:
        yield connection


def create(connection: Connection, trigger: Trigger, items: list[Item]) -> list[UUID]:
    """Create work orders, commit, and return their ids in the order of the items."""
    create_for(connection, trigger, items)
    connection.commit()
    ids = [row.id for row in work_orders.list_work_orders(connection, Filter(trigger=trigger.name), limit=10_000)]
    connection.rollback()
    return ids[::-1]


def do(connection: Connection, kind: str, wanted: Filter, *, step: int = 3, **options: Any) -> Job:
    job = jobs.create_job(connection, kind, wanted, Attribution("ada", "a test"), options=options)
    connection.commit()
    return runner.run_job(connection, job.id, step=step)


def rerun_of_failed(connection: Connection, trigger: Trigger, count: int) -> Job:
    """Create work orders that failed, and a job that reruns them."""
    create(connection, trigger, accepted_range("s", 0, count))
    finish_all(connection, trigger.name, "failed")
    job = jobs.create_job(connection, "rerun", Filter(trigger=trigger.name), Attribution("ada", "a test"))
    connection.commit()
    return job


def states(connection: Connection, trigger: Trigger) -> dict[str, int]:
    return work_orders.count_by_state(connection, Filter(trigger=trigger.name))


def test_a_rerun_is_a_new_run_of_the_same_work_order_with_who_and_why(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    (id_,) = create(connection, trigger, [accepted("s", 0)])
    finish_all(connection, name, "failed")
    job = do(connection, "rerun", Filter(selected=(id_,)))
    assert (job.state, job.total, job.done, dict(job.skipped)) == ("finished", 1, 1, {})
    assert [(run.attempt, run.state) for run in runs_of(connection, id_)] == [
        (1, "failed"),
        (2, "available"),
    ]
    row = connection.execute(
        "SELECT actor, reason, priority FROM workorders.runs WHERE work_order_id = %s AND attempt = 2", (id_,)
    ).fetchone()
    assert row == ("ada", "a test", 0)
    assert states(connection, trigger) == {"requeued": 1}


def test_a_rerun_continues_the_generation_unless_it_is_from_the_start_or_the_work_order_succeeded(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    (id_,) = create(connection, trigger, [accepted("s", 0)])
    ends: list[FinalState] = ["failed", "lost", "failed", "success", "killed"]
    for state, from_start in zip(ends, [False, False, True, False, True], strict=True):
        finish_all(connection, name, state)
        do(connection, "rerun", Filter(selected=(id_,)), from_start=from_start)
    do(connection, "cancel", Filter(selected=(id_,)))
    do(connection, "rerun", Filter(selected=(id_,)))
    assert [(run.state, run.generation) for run in runs_of(connection, id_)] == [
        ("failed", 1),
        ("lost", 1),
        ("failed", 1),
        ("success", 2),
        ("killed", 3),
        ("cancelled", 4),
        ("available", 4),
    ]


def test_reruns_go_before_what_waits_in_the_order_of_their_creation(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    create(connection, trigger, accepted_range("s", 0, 5))
    finish_all(connection, name, "failed")
    create(connection, trigger, accepted_range("s", 5, 7))
    job = do(connection, "rerun", Filter(trigger=name, state="failed"), step=2)
    assert job.done == 5
    claimed = claim(connection, name)
    assert [(run.position, run.attempt) for run in claimed] == [*((place, 2) for place in range(5)), (5, 1), (6, 1)]


def test_what_waits_or_runs_is_skipped_and_counted(connection: Connection, trigger: Trigger, name: str) -> None:
    create(connection, trigger, accepted_range("s", 0, 3))
    claim(connection, name, limit=1)
    job = do(connection, "rerun", Filter(trigger=name))
    assert (job.total, job.done, dict(job.skipped)) == (3, 0, {"not finished": 3})
    assert states(connection, trigger) == {"pending": 2, "running": 1}
    finish_all(connection, name, "failed")
    assert do(connection, "rerun", Filter(trigger=name, state="failed")).done == 2
    assert dict(do(connection, "rerun", Filter(trigger=name)).skipped) == {"not finished": 3}


def test_a_job_continues_where_a_crash_left_it_and_does_nothing_twice(
    connection: Connection, trigger: Trigger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = create(connection, trigger, accepted_range("s", 0, 7))
    finish_all(connection, name, "failed")
    job = jobs.create_job(connection, "rerun", Filter(trigger=name), Attribution("ada", "a test"))
    connection.commit()
    seen: list[int] = []

    def crash_after_two_steps(now: Job) -> None:
        seen.append(now.done)
        if len(seen) == 2:
            raise RuntimeError("the machine went dark")

    with pytest.raises(RuntimeError, match="went dark"):
        runner.run_job(connection, job.id, step=3, progress=crash_after_two_steps)
    stopped = jobs.get_job(connection, job.id)
    assert (stopped.state, stopped.done, stopped.error) == ("failed", 6, "RuntimeError: the machine went dark")
    connection.rollback()
    ended = runner.run_job(connection, job.id, step=3)
    assert (ended.state, ended.done, ended.error) == ("finished", 7, None)
    assert [len(runs_of(connection, id_)) for id_ in ids] == [2] * 7


def test_a_step_that_fails_leaves_nothing_of_itself(
    connection: Connection, trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = rerun_of_failed(connection, trigger, 4)

    def break_down(*_: object) -> None:
        raise RuntimeError("between the runs and the progress")

    with monkeypatch.context() as patched:
        patched.setattr(jobs, "record_progress", break_down)
        with pytest.raises(RuntimeError):
            runner.run_job(connection, job.id)
    assert states(connection, trigger) == {"failed": 4}
    connection.rollback()
    assert runner.run_job(connection, job.id).done == 4


def test_a_job_that_one_worker_executes_is_executed_by_no_other(
    connection: Connection, other_connection: Connection, trigger: Trigger
) -> None:
    job = rerun_of_failed(connection, trigger, 4)
    refused: list[str] = []

    def meanwhile(_: Job) -> None:
        with pytest.raises(JobUnavailableError) as raised:
            runner.run_job(other_connection, job.id)
        refused.append(str(raised.value))

    assert runner.run_job(connection, job.id, step=3, progress=meanwhile).done == 4
    assert refused[0].startswith(f"Another process runs bulk operation {job.id}, and reported at ")
    with pytest.raises(JobUnavailableError, match="is finished, so it does not continue"):
        runner.run_job(connection, job.id)


def test_a_worker_that_was_silent_too_long_does_no_further_step(
    connection: Connection, other_connection: Connection, trigger: Trigger
) -> None:
    job = rerun_of_failed(connection, trigger, 6)

    def taken_over(_: Job) -> None:
        other_connection.execute(
            "UPDATE workorders.bulk_jobs SET heartbeat_at = now() - interval '1 hour' WHERE id = %s", (job.id,)
        )
        jobs.claim(other_connection, job.id, uuid4())
        other_connection.commit()

    with pytest.raises(JobUnavailableError, match="taken over by another process"):
        runner.run_job(connection, job.id, step=3, progress=taken_over)
    assert (jobs.get_job(connection, job.id).state, jobs.get_job(connection, job.id).done) == ("running", 3)
    assert states(connection, trigger) == {"failed": 3, "requeued": 3}


def test_a_job_that_is_cancelled_does_no_further_step(
    connection: Connection, other_connection: Connection, trigger: Trigger
) -> None:
    job = rerun_of_failed(connection, trigger, 6)

    def stop(_: Job) -> None:
        jobs.cancel_job(other_connection, job.id)
        other_connection.commit()

    ended = runner.run_job(connection, job.id, step=2, progress=stop)
    assert (ended.state, ended.done) == ("cancelled", 2)
    assert states(connection, trigger) == {"failed": 4, "requeued": 2}
    with pytest.raises(JobUnavailableError, match="is cancelled already"):
        jobs.cancel_job(connection, job.id)


def test_what_is_created_after_the_job_does_not_belong_to_it(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    job = rerun_of_failed(connection, trigger, 1)
    create(connection, trigger, [accepted("s", 1)])
    finish_all(connection, name, "failed")
    assert runner.run_job(connection, job.id).done == 1
    assert states(connection, trigger) == {"requeued": 1, "failed": 1}


def test_a_job_needs_a_reason_and_a_work_order_that_is_there(connection: Connection, name: str) -> None:
    with pytest.raises(ConfigurationError, match="A rerun needs a reason"):
        jobs.create_job(connection, "rerun", Filter(), Attribution("ada", " "))
    with pytest.raises(UnknownNameError, match="There is no work order"):
        jobs.create_job(connection, "rerun", Filter(selected=(uuid4(),)), Attribution("ada", "a test"))
    with pytest.raises(UnknownNameError, match="There is no bulk operation 0"):
        jobs.get_job(connection, 0)


def test_cancelling_ends_what_waits_and_records_who_and_why(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    ids = create(connection, trigger, accepted_range("s", 0, 4))
    finish_all(connection, name, "failed")
    do(connection, "rerun", Filter(selected=(ids[0],)))
    create(connection, trigger, accepted_range("s", 4, 6))
    job = do(connection, "cancel", Filter(trigger=name), step=2)
    assert (job.total, job.done, dict(job.skipped)) == (6, 3, {"not waiting": 3})
    assert states(connection, trigger) == {"failed": 3, "cancelled": 3}
    rows = connection.execute(
        "SELECT attempt, actor, reason FROM workorders.runs WHERE workflow_id = %s AND state = 'cancelled' "
        "ORDER BY attempt DESC",
        (trigger.workflow_id,),
    ).fetchall()
    assert rows == [(2, "ada", "a test"), (1, "ada", "a test"), (1, "ada", "a test")]
    assert claim(connection, name) == []


def test_what_is_claimed_at_this_moment_is_not_cancelled(
    connection: Connection, other_connection: Connection, trigger: Trigger, name: str
) -> None:
    ids = create(connection, trigger, accepted_range("s", 0, 3))
    finish_all(connection, name, "failed")
    do(connection, "rerun", Filter(selected=(ids[0],)))
    create(connection, trigger, [accepted("s", 3)])
    from workorders.core.runs.claiming import claim as claim_openly

    workflow = workflows.find(other_connection, name)
    worker_id = add_worker(other_connection, workflow)
    assert len(claim_openly(other_connection, workflow, limit=10, worker_id=worker_id)) == 2
    job = do(connection, "cancel", Filter(trigger=name))
    other_connection.commit()
    assert (job.done, dict(job.skipped)) == (0, {runner.IN_USE: 2, "not waiting": 2})
    assert states(connection, trigger) == {"failed": 2, "running": 2}


def test_a_rejected_work_order_gets_its_input_and_its_run_once_it_is_one(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    limit = Item("s", 0, REQUEST, None, Rejection("limit", "too many today"), b'{"name":"Zo\xc3\xab"}')
    nul = Item("s", 2, REQUEST, None, Rejection("limit", "too many today"), rb'{"a":"\u0000"}')
    ids = create(connection, trigger, [limit, rejected("s", 1), nul])
    job = do(connection, "rerun", Filter(trigger=name))
    assert (job.done, dict(job.skipped)) == (1, {"still rejected or parked": 2})
    good = work_orders.get_work_order(connection, ids[0])
    assert (good.state, good.reason) == ("requeued", None)
    assert good.body is not None
    assert "Zoë" in good.body
    assert [(run.attempt, run.generation) for run in runs_of(connection, ids[0])] == [(1, 1)]
    bad = work_orders.get_work_order(connection, ids[2])
    assert (bad.state, bad.reason, bad.raw) == ("rejected", "nul-character", rb'{"a":"\u0000"}')
    assert [run.work_order_id for run in claim(connection, name)] == [ids[0]]


def test_what_was_wiped_cannot_run_again(connection: Connection, trigger: Trigger, name: str) -> None:
    accepted_one, rejected_one, _ = create(connection, trigger, [accepted("s", 0), rejected("s", 1), accepted("s", 2)])
    finish_all(connection, name)
    connection.execute("UPDATE workorders.dataclips SET body = NULL WHERE id = %s", (accepted_one,))
    connection.execute(
        "UPDATE workorders.rejections SET raw = NULL, request = '{}' WHERE work_order_id = %s", (rejected_one,)
    )
    connection.commit()
    job = do(connection, "rerun", Filter(trigger=name))
    assert (job.done, dict(job.skipped)) == (1, {"erased": 2})


def test_a_kafka_message_is_validated_by_the_current_definition(connection: Connection, name: str) -> None:
    def define(limit: str, tombstones: str) -> Trigger:
        definition = {
            "name": name, "workflow": name, "topics": [name], "max_message_bytes": limit, "tombstones": tombstones
        }  # fmt: skip
        return triggers.register(connection, name=name, type_="kafka", workflow=name, definition=definition)

    large = Item("s", 0, REQUEST, None, Rejection("too-large", "..."), b'{"a":"%b"}' % (b"x" * 3000))
    null = Item("s", 1, REQUEST, None, Rejection("null-value", "..."), None)
    cut = Item("s", 2, b'{"omitted_bytes":5000}', None, Rejection("too-large", "..."), b"{}")
    ids = create(connection, define("2KiB", "reject"), [large, null, cut])
    assert dict(do(connection, "rerun", Filter(trigger=name)).skipped) == {"still rejected or parked": 3}
    define("8KiB", "accept")
    connection.commit()
    job = do(connection, "rerun", Filter(trigger=name))
    assert (job.done, dict(job.skipped)) == (2, {"still rejected or parked": 1})
    tombstone = work_orders.get_work_order(connection, ids[1])
    assert tombstone.body == "{\n}"
    assert tombstone.request is not None
    assert '"tombstone": true' in tombstone.request


def test_what_a_limit_rejected_gets_its_ordering_key_with_its_rerun(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    fields = {"name": name, "callable": "json:dumps", "limits": {"max_waiting": 1}, "ordering_key": "body:/a"}
    workflows.register(connection, WorkflowDefinition.model_validate(fields))
    create(connection, triggers.find(connection, name), accepted_range("s", 0, 4))
    assert states(connection, trigger) == {"pending": 1, "rejected": 3}
    job = do(connection, "rerun", Filter(trigger=name, rejection="run-limit"), step=10)
    assert (job.state, job.done, dict(job.skipped)) == ("finished", 3, {})
    assert states(connection, trigger) == {"pending": 1, "requeued": 3}
    ordering_keys = connection.execute(
        "SELECT DISTINCT ordering_key FROM workorders.runs WHERE workflow_id = %s", (trigger.workflow_id,)
    )
    assert [ordering_key for (ordering_key,) in ordering_keys if ordering_key is not None]


def test_a_duplicate_stays_one(connection: Connection, name: str) -> None:
    definition = {"idempotency": {"key": "body:/a", "window": 3600}}
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition=definition)
    create(connection, trigger, accepted_range("s", 0, 2))
    assert states(connection, trigger) == {"pending": 1, "rejected": 1}
    # Also when its window is over: who reruns what was rejected does not mean what was sent twice.
    connection.execute("DELETE FROM workorders.idempotency_keys WHERE trigger_id = %s", (trigger.id,))
    job = do(connection, "rerun", Filter(trigger=name, state="rejected"))
    assert (job.done, dict(job.skipped)) == (0, {"still rejected or parked": 1})


def test_what_is_parked_is_neither_rerun_nor_cancelled(connection: Connection, name: str) -> None:
    definition = {"sequence": {"key": "request:/from", "number": "body:/n", "start": 0}}
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition=definition)
    create(connection, trigger, [accepted("s", 0, b'{"n":5}')])
    assert states(connection, trigger) == {"parked": 1}
    assert dict(do(connection, "rerun", Filter(trigger=name)).skipped) == {"not finished": 1}
    assert dict(do(connection, "cancel", Filter(trigger=name)).skipped) == {"not waiting": 1}
