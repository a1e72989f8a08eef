"""What is due for the whole database, done by the scheduler's own runs of the maintenance."""

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Run, Task
from support.command_on_stack import typed
from support.eventually import eventually
from support.flow import SECONDS
from support.observed_trigger import Place
from workorders import dag_ids
from workorders.core import triggers
from workorders.core.admission import gaps
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs
from workorders.core.bulk.jobs import Job
from workorders.core.creation.create_one import create_by_hand
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import connect


def task_of(api: AirflowApi, run_id: str, task_id: str) -> Task:
    """Return a task of a Dag run when it has ended."""

    def ended() -> Task | None:
        run = Run(dag_ids.MAINTENANCE, run_id, "", None, {})
        return next(
            (task for task in api.tasks(run) if task.id == task_id and task.state in {"success", "failed"}), None
        )

    task = eventually(ended, seconds=SECONDS, what=f"the end of {task_id}")
    assert task is not None
    return task


def maintain(api: AirflowApi, task_id: str) -> Task:
    """Start a Dag run, and return one of its tasks when it has ended."""
    return task_of(api, api.trigger(dag_ids.MAINTENANCE, {}), task_id)


def test_airflow_does_every_duty_by_the_clock_without_being_asked(api: AirflowApi) -> None:
    def scheduled() -> Run | None:
        runs = api.runs(dag_ids.MAINTENANCE)
        return next((run for run in runs if run.id.startswith("scheduled__") and run.state == "success"), None)

    run = eventually(scheduled, seconds=SECONDS, what="a Dag run by the schedule", every=1)
    assert run is not None
    assert {task.id: task.state for task in api.tasks(run)} == dict.fromkeys(
        (
            *("run_bulk_jobs", "recover_lost_runs", "delete_expired", "delete_expired_steps"),
            *("refresh_search_index", "check_gaps"),
        ),
        "success",
    )


def test_a_queued_rerun_is_done_by_the_next_dag_run(
    airflow_stack: LocalStack, api: AirflowApi, ordered: list[Place]
) -> None:
    options = ("--to-position", "20", "--reason", "a test", "--yes")
    selection = ("--trigger", "orders", "--stream", "e2e.orders/0@", *options)
    wanted = Filter(trigger="orders", stream="e2e.orders/0@", to_position=20)

    def states() -> dict[str, int]:
        with connect(airflow_stack.database_url) as connection:
            return work_orders.count_by_state(connection, wanted)

    waiting = states()["pending"]
    assert typed(airflow_stack, "work-orders", "cancel", *selection, "--state", "pending").returncode == 0
    assert states()["cancelled"] == waiting
    queued = typed(airflow_stack, "work-orders", "rerun", *selection, "--state", "cancelled", "--detach")
    assert f"the Dag {dag_ids.MAINTENANCE} runs it" in queued.stderr

    def newest() -> Job:
        with connect(airflow_stack.database_url) as connection:
            return jobs.list_jobs(connection, limit=1)[0]

    # One of the scheduler's own Dag runs may be at work at it, and the one that is asked for then passes it over.
    eventually(
        lambda: maintain(api, "run_bulk_jobs").state == "success" and newest().state == "finished",
        seconds=SECONDS,
        what="the queued rerun",
    )
    job = newest()
    assert (job.kind, job.state, job.done, job.reason) == ("rerun", "finished", waiting, "a test")
    assert "cancelled" not in states()


def come(stack: LocalStack, *versions: int) -> None:
    """Let events of one order come, of a trigger as its file defines it."""
    with connect(stack.database_url) as connection:
        trigger = triggers.find(connection, "numbered")
        for version in versions:
            body = b'{"order": 7, "version": %d}' % version
            create_by_hand(connection, trigger, body, Attribution("a test", "a test"))


def gap_ages(stack: LocalStack) -> bool:
    """Return whether there is a gap that is older than the trigger's limit."""
    with connect(stack.database_url) as connection:
        (gap,) = gaps.list_gaps(connection, trigger="numbered")
        row = connection.execute("SELECT %s + interval '1.5 s' < now()", [gap.parked_since]).fetchone()
    return bool(row and row[0])


def test_a_gap_that_lasts_is_a_red_task_that_reports_it_once_and_green_again_when_it_is_closed(
    airflow_stack: LocalStack, api: AirflowApi
) -> None:
    form = {"body": {"order": 7, "version": 1}, "reason": "the first, by the form, which registers the trigger"}
    api.trigger("numbered_manual", form)
    eventually(lambda: registered(airflow_stack), seconds=SECONDS, what="the first event")
    come(airflow_stack, 3, 4)
    eventually(lambda: gap_ages(airflow_stack), seconds=SECONDS, what="the age of the gap")
    maintain(api, "check_gaps")
    # One of the scheduler's own Dag runs may have been the first to see the gap.
    checks = [task_of(api, run.id, "check_gaps") for run in api.runs(dag_ids.MAINTENANCE)]
    (red,) = [task for task in checks if task.state == "failed"]
    assert "gap above number 1 since" in api.error(red)
    assert "2 work orders are parked above it" in api.error(red)
    assert "workorders sequences skip numbered" in api.error(red)
    assert "Called for numbered with 2 parked, cleared: False." in api.log_text(red)
    assert red.try_number == 1
    come(airflow_stack, 2)
    maintain(api, "check_gaps")
    checks = [task_of(api, run.id, "check_gaps") for run in api.runs(dag_ids.MAINTENANCE)]
    assert len([task for task in checks if task.state == "failed"]) == 1
    logs = "\n".join(api.log_text(task) for task in checks if task.state == "success")
    assert "its high-water mark is 4" in logs
    assert "Called for numbered with 0 parked, cleared: True." in logs


def registered(stack: LocalStack) -> bool:
    """Return whether an event of the trigger has come."""
    with connect(stack.database_url) as connection:
        row = connection.execute(
            """
            SELECT EXISTS (
                SELECT FROM workorders.work_orders JOIN workorders.triggers ON triggers.id = work_orders.trigger_id
                WHERE triggers.name = 'numbered'
            )
            """
        ).fetchone()
    return bool(row and row[0])
