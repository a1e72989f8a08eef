"""Replay is *clear*: through Airflow's API, as a person does it."""

import pytest

from support.airflow_api import Run
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import Place, some_events


def until_tried_again(flow: Flow, run: Run, tries_before: int) -> None:
    """Wait until a cleared run has ended well once more."""

    def again() -> bool:
        ended = next(found for found in flow.ingest_runs() if found.id == run.id).state == "success"
        return ended and flow.create(run).try_number > tries_before

    eventually(again, seconds=SECONDS, what=f"the replay of {run.id}")


def test_clearing_the_task_restores_what_is_missing_and_doubles_nothing(orders: Flow, ordered: list[Place]) -> None:
    run = orders.ingest_runs()[0]
    first = orders.trigger.ranges()[0]
    gone = range(first["start_offset"], first["start_offset"] + 5)
    before = orders.trigger.next_offsets()
    assert orders.trigger.delete_work_orders(first["partition"], gone) == len(gone)
    assert not orders.trigger.has_all(ordered)
    tries = orders.create(run).try_number
    orders.api.clear_task(run, orders.create_task)
    until_tried_again(orders, run, tries)
    assert orders.trigger.has_all(ordered)
    assert orders.trigger.next_offsets() == orders.trigger.group_offsets() == before


@pytest.mark.long
def test_clearing_the_whole_run_changes_nothing(orders: Flow, ordered: list[Place]) -> None:
    run = orders.ingest_runs()[0]
    ranges = orders.trigger.ranges()
    tries = orders.create(run).try_number
    orders.api.clear_run(run)
    until_tried_again(orders, run, tries)
    assert orders.trigger.has_all(ordered)
    assert orders.trigger.ranges() == ranges
    assert orders.trigger.next_offsets() == orders.trigger.group_offsets()


@pytest.mark.long
def test_clearing_the_listeners_tasks_starts_no_second_run_for_a_batch(orders: Flow, ordered: list[Place]) -> None:
    listener = orders.finished_listener_runs()[0]
    tries = {task.id: task.try_number for task in orders.api.tasks(listener)}
    before = [run.id for run in orders.ingest_runs()]
    ends = {run.id: orders.create(run).end_date for run in orders.ingest_runs()}
    orders.api.clear_task(listener, "plan_batch")
    # A continuous DAG has one active run: the cleared one waits for the end of the one that waits for messages.
    ordered += orders.trigger.produce(some_events(3, 3, first=600))

    def again() -> bool:
        task = orders.api.task(listener, "plan_batch")
        state = next(run.state for run in orders.api.runs(orders.listener) if run.id == listener.id)
        return task.try_number > tries["plan_batch"] and state == "success"

    eventually(again, seconds=SECONDS, what=f"the second end of {listener.id}")
    orders.until_ingested(ordered)
    batches = {f"batch_{range_['batch_id']}" for range_ in orders.trigger.ranges()}
    assert {run.id for run in orders.ingest_runs()} == batches
    assert [run.id for run in orders.ingest_runs()][: len(before)] == before
    assert {run.id: orders.create(run).end_date for run in orders.ingest_runs() if run.id in ends} == ends
