"""The operators of history, as a worker runs them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from local_stack.stack import LocalStack
from support.admission import limit
from support.executing import Executing
from support.runs import finish_all
from support.work_orders import accepted_range
from workorders.airflow.operators import base
from workorders.airflow.operators.base import UNKNOWN_USER
from workorders.airflow.operators.bulk_jobs import BulkJobOperator, form
from workorders.airflow.operators.maintenance import (
    RecoverLostRunsOperator,
    RefreshHistoryOperator,
    ResumeBulkJobsOperator,
    RetentionOperator,
)
from workorders.airflow.task_errors import TaskFailedError
from workorders.core import triggers
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.creation.work_orders import create_for
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def connections(stack: LocalStack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Airflow's connection leads to the stack."""
    monkeypatch.setattr(base, "database_url", lambda _: stack.database_url)
    monkeypatch.setenv("WORKORDERS_EXPORTS", str(tmp_path / "exports"))


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """Five work orders that failed."""
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    create_for(connection, trigger, accepted_range("s", 0, 5))
    connection.commit()
    finish_all(connection, name, "failed")
    return trigger


def submit(kind: str, *, user: str | None = "ada", run_id: str = "first", **fields: Any) -> dict[str, Any]:
    """Run the task of a form that was filled in so."""
    defaults = {name: field.value for name, field in form(kind).items() if name != "reason"}
    run = SimpleNamespace(triggering_user_name=user, dag_id=f"workorders_{kind}", run_id=run_id)
    ti = SimpleNamespace(try_number=1, max_tries=3)
    context: Any = {"params": {**defaults, "reason": "a test", **fields}, "dag_run": run, "ti": ti}
    return BulkJobOperator(task_id=kind, kind=kind).execute(context)


def states(connection: Connection, name: str) -> dict[str, int]:
    connection.rollback()
    return work_orders.count_by_state(connection, Filter(trigger=name))


def test_a_form_with_dry_run_counts_and_changes_nothing(connection: Connection, trigger: Trigger, name: str) -> None:
    assert submit("rerun", trigger=name) == {"total": 5, "by_state": {"failed": 5}}
    assert states(connection, name) == {"failed": 5}


def test_a_form_without_dry_run_reruns_in_the_name_of_the_user_who_sent_it(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    done = submit("rerun", trigger=name, dry_run=False, run_id=name)
    assert (done["state"], done["total"], done["done"], done["skipped"]) == ("finished", 5, 5, {})
    assert states(connection, name) == {"requeued": 5}
    job = jobs.get_job(connection, done["job"])
    assert (job.actor, job.reason) == ("ada", "a test")


def test_a_task_that_is_cleared_does_its_job_once(connection: Connection, trigger: Trigger, name: str) -> None:
    first = submit("rerun", trigger=name, dry_run=False, run_id=name)
    finish_all(connection, name, "failed")
    assert submit("rerun", trigger=name, dry_run=False, run_id=name) == first
    assert states(connection, name) == {"failed": 5}


def test_a_try_after_a_crash_continues_the_job(
    connection: Connection, trigger: Trigger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = runner.run_job

    def crash(given: Connection, job_id: int, **_: Any) -> Job:
        def stop(_: Job) -> None:
            raise MemoryError

        return work(given, job_id, step=2, progress=stop)

    with monkeypatch.context() as patched:
        patched.setattr(runner, "run_job", crash)
        with pytest.raises(MemoryError):
            submit("cancel", user=None, trigger=name, dry_run=False, run_id=name)
    connection.rollback()
    ended = submit("cancel", user=None, trigger=name, dry_run=False, run_id=name)
    assert (ended["state"], ended["skipped"]) == ("finished", {"not waiting": 5})
    assert jobs.get_job(connection, ended["job"]).actor == UNKNOWN_USER


def test_an_export_is_written_to_the_folder_of_exports(
    connection: Connection, trigger: Trigger, name: str, tmp_path: Path
) -> None:
    done = submit("export", trigger=name, file="failed.csv", dry_run=False, run_id=name)
    assert done["done"] == 5
    assert len((tmp_path / "exports" / "failed.csv").read_text(encoding="utf-8").splitlines()) == 6


def test_a_task_whose_job_finds_no_capacity_is_retried_and_continues(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    limit(connection, name, waiting=3, kind="hard")
    connection.commit()
    with pytest.raises(TaskFailedError, match=r"3 of 5 done. Workflow .* takes no more runs now: its hard"):
        submit("rerun", trigger=name, dry_run=False, run_id=name)
    finish_all(connection, name)
    assert submit("rerun", trigger=name, dry_run=False, run_id=name)["done"] == 5


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "with no filter at all; nothing was changed"),
        ({"trigger": "unknown-trigger"}, "No trigger unknown-trigger"),
        ({"text": "***"}, "holds no word"),
        ({"id": "01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f"}, "There is no work order 01997a3e"),
    ],
)
def test_a_form_that_does_not_fit_fails_at_once_with_the_sentence(fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(AirflowFailException, match=sentence.replace("*", r"\*")):
        submit("rerun", dry_run=False, **fields)


def test_orphaned_jobs_are_run_and_a_failure_fails_the_task(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    connection.execute("DELETE FROM workorders.bulk_jobs")
    good, bad = (
        jobs.create_job(connection, "rerun", Filter(trigger=name), actor="ada", reason="a test") for _ in range(2)
    )
    connection.execute("UPDATE workorders.bulk_jobs SET created_at = now() - interval '1 minute'")
    connection.commit()
    operator = ResumeBulkJobsOperator(task_id="jobs")
    context: Any = {}
    connection.execute("UPDATE workorders.bulk_jobs SET filter = %s WHERE id = %s", ('{"trigger": "unknown"}', bad.id))
    connection.commit()
    with pytest.raises(AirflowFailException, match=f"^Job {bad.id} failed: No trigger unknown"):
        operator.execute(context)
    assert jobs.get_job(connection, good.id).state == "finished"
    connection.commit()
    assert operator.execute(context) == {}


def test_lost_runs_are_recovered_although_no_dag_of_their_workflow_runs_and_can_then_be_rerun(
    stack: LocalStack, name: str
) -> None:
    executing = Executing(stack.database_url, name)
    executing.create([{}])
    executing.claim_and_fall_silent()
    context: Any = {}
    with connect(stack.database_url) as connection:
        connection.execute(
            "UPDATE workorders.runs SET state = 'started' WHERE workflow_id = %s", [executing.workflow.id]
        )
    assert RecoverLostRunsOperator(task_id="recover").execute(context)["lost"] > 0
    assert executing.states() == [("lost", "lost")]
    with connect(stack.database_url) as connection:
        job = jobs.create_job(connection, "rerun", Filter(workflow=name), actor="ada", reason="a test")
        connection.commit()
        assert runner.run_job(connection, job.id).done == 1
    assert executing.states() == [("requeued", "available")]


def test_the_refresh_and_the_retention_return_their_numbers(trigger: Trigger) -> None:
    context: Any = {}
    assert set(RefreshHistoryOperator(task_id="update").execute(context)) == {"filled", "looked_again", "counted"}
    assert set(RetentionOperator(task_id="keep").execute(context)) == {"deleted", "wiped"}
