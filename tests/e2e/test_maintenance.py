"""What is due for the whole database, done by the scheduler's own runs of the maintenance."""

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Run, Task
from support.command_on_stack import typed
from support.eventually import eventually
from support.flow import SECONDS
from support.observed_trigger import Place
from workorders import dag_ids
from workorders.core.bulk import jobs
from workorders.core.bulk.jobs import Job
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
        ("run_bulk_jobs", "recover_lost_runs", "delete_expired", "refresh_search_index"), "success"
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
