"""Replay is *clear*: through Airflow's API, as a person does it."""

from support.airflow_api import Run
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import Place


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
