"""What people do to a run by a click while its batch is not finished: the batch is taken up again by itself.

All clicks hit one batch, one after the other, for what costs time here is a Spark application that comes to its end.
"""

from dataclasses import dataclass, field

import psutil
import psycopg
import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Run, Task
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, some_events
from support.sampler import commits_in_order

MESSAGES = 50


def spark_applications(stack: LocalStack) -> list[psutil.Process]:
    """Return the Java processes of the Spark applications that run."""
    processes = psutil.Process(stack.supervisor_pid).children(recursive=True)
    return [process for process in processes if {"org.apache.spark.deploy.SparkSubmit", "--batch"} <= _words(process)]


def _words(process: psutil.Process) -> set[str]:
    """Return the words of a process's command line; none of one that has just ended."""
    try:
        return set(process.cmdline())
    except psutil.NoSuchProcess:
        return set()


@dataclass
class Clicked:
    """What a batch went through until it was ingested."""

    flow: Flow
    run: Run
    tries: list[int] = field(default_factory=list)
    """Number of the try at the create task after each click."""

    @property
    def batch(self) -> int:
        """Return the batch's number."""
        return int(self.run.conf["batch_id"])

    def planning_log(self) -> list[str]:
        """Return the lines of the tasks that plan, oldest first."""
        tasks = [self.flow.api.task(run, "plan_batch") for run in self.flow.finished_listener_runs()]
        return [line for task in tasks if task.state == "success" for line in self.flow.api.log_text(task).splitlines()]


@pytest.fixture(scope="module")
def clicked(airflow_stack: LocalStack, api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Clicked:
    """A batch whose run was deleted, marked as failed, marked as success and cleared, and that was ingested then."""
    flow = Flow(api, triggers["clicks"])
    flow.until_waiting()
    api.set_paused(flow.ingest, paused=True)
    places = flow.trigger.produce(some_events(MESSAGES, 1))
    (run,) = eventually(flow.ingest_runs, seconds=SECONDS, what="the dispatch of a batch")
    made = Clicked(flow, run)
    grow_old(airflow_stack, made.batch)
    with commits_in_order(flow.trigger):
        api.delete_run(run)
        eventually(flow.ingest_runs, seconds=SECONDS, what="the second dispatch of the batch")
        api.set_paused(flow.ingest, paused=False)
        made.tries.append(until_at_work(made).try_number)
        eventually(lambda: spark_applications(airflow_stack), seconds=SECONDS, what="a Spark application")
        api.mark_run(run, "failed")
        made.tries.append(until_at_work(made).try_number)
        api.mark_task(run, flow.create_task, "success")
        made.tries.append(until_at_work(made).try_number)
        api.clear_task(run, flow.create_task)
        made.tries.append(until_at_work(made).try_number)
        flow.until_ingested(places)
    return made


def test_messages_that_came_while_the_ingest_was_paused_are_ingested_once_whatever_is_clicked(clicked: Clicked) -> None:
    """The fixture has waited for the work orders; here is what else it left."""
    (range_,) = clicked.flow.trigger.ranges()
    assert (range_["batch_id"], range_["created"]) == (clicked.batch, MESSAGES)
    assert [(run.id, run.state) for run in clicked.flow.ingest_runs()] == [(f"batch_{clicked.batch}", "success")]


def test_a_batch_whose_run_was_deleted_is_dispatched_again(clicked: Clicked) -> None:
    sentence = f"Batch {clicked.batch} is unfinished and has no run {clicked.run.id}; it is dispatched now."
    assert len([line for line in clicked.planning_log() if sentence in line]) == 1


def test_a_run_that_was_marked_as_ended_with_its_batch_unfinished_is_started_again(clicked: Clicked) -> None:
    sentence = f"Batch {clicked.batch} is unfinished and its run {clicked.run.id} has ended; the run is started again"
    assert len([line for line in clicked.planning_log() if sentence in line]) == 2


def test_the_log_of_the_plan_names_each_run_that_it_started(clicked: Clicked) -> None:
    started = f"Started run {clicked.run.id} of Dag {clicked.flow.ingest}"
    assert len([line for line in clicked.planning_log() if f"{started}." in line]) == 2
    assert len([line for line in clicked.planning_log() if f"{started} again." in line]) == 2


def test_a_commit_after_a_task_that_was_only_marked_reports_what_has_no_work_orders(clicked: Clicked) -> None:
    log = clicked.flow.api.log_text(clicked.flow.api.task(clicked.run, "commit_offsets"), 1)
    assert f"Batch {clicked.run.id.removeprefix('batch_')}: 1 of its ranges have no work orders yet" in log


def test_every_click_on_a_task_at_work_ends_one_try_and_begins_another(clicked: Clicked) -> None:
    assert clicked.tries == [1, 2, 3, 4]


def grow_old(stack: LocalStack, batch: int) -> None:
    """Let a batch be older than its listener run may need for the dispatch."""
    with psycopg.connect(stack.database_url) as connection:
        connection.execute(
            "UPDATE workorders.kafka_ranges SET planned_at = planned_at - interval '1 minute' WHERE batch_id = %s",
            (batch,),
        )


def until_at_work(made: Clicked) -> Task:
    """Wait until the create task is at work, in a try after those of before, and return it."""

    def working() -> Task | None:
        tasks = [task for task in made.flow.api.tasks(made.run) if task.id == made.flow.create_task]
        return next((task for task in tasks if task.state == "running" and task.try_number not in made.tries), None)

    task = eventually(working, seconds=SECONDS, what=f"another try of {made.run.id} after those of {made.tries}")
    assert task is not None
    return task
