"""While messages arrive, a batch grows, and one Dag run stands for all of its ranges."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psutil
import pytest

from support.airflow_api import AirflowApi, Run
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import ObservedTrigger, Place, some_events

SIZE = 40
"""Messages of a full round, as in the trigger's file."""


@pytest.fixture(scope="module")
def backlog(api: AirflowApi, triggers: dict[str, ObservedTrigger]) -> Iterator[Flow]:
    """The trigger with small batches; it rests at the end, because one of its partitions stalls."""
    flow = Flow(api, triggers["backlog"])
    yield flow
    api.set_paused(flow.ingest, paused=True)


@contextmanager
def paused_listener(flow: Flow) -> Iterator[None]:
    """Pause the trigger, once its listener waits."""
    flow.until_waiting()
    flow.api.set_paused(flow.listener, paused=True)
    try:
        yield
    finally:
        flow.api.set_paused(flow.listener, paused=False)


def let_wait(flow: Flow, values: Iterable[tuple[int, bytes | None]]) -> list[Place]:
    """Produce messages while the listener is paused, so that its first batch finds all of them."""
    with paused_listener(flow):
        return flow.trigger.produce(values)


def until_tried_again(flow: Flow, run: Run, tries_before: int) -> None:
    """Wait until a cleared run has ended well once more."""

    def again() -> bool:
        ended = next(found for found in flow.ingest_runs() if found.id == run.id).state == "success"
        return ended and flow.create(run).try_number > tries_before

    eventually(again, seconds=SECONDS, what=f"the replay of {run.id}")


@pytest.fixture(scope="module")
def drained(backlog: Flow) -> list[Place]:
    """Ten full rounds that waited together, ingested."""
    places = let_wait(backlog, some_events(10 * SIZE, 2))
    backlog.until_ingested(places)
    return places


def test_one_dag_run_ingests_a_backlog_round_by_round_and_its_ranges_become_one(
    backlog: Flow, drained: list[Place]
) -> None:
    found = backlog.trigger.batches()
    # A slow machine may need more than one task for them.
    assert len(found) <= 3
    assert [run.id for run in backlog.ingest_runs()] == [f"batch_{batch['id']}" for batch in found]
    assert {run.state for run in backlog.ingest_runs()} == {"success"}
    for partition in (0, 1):
        parts = [part for part in backlog.trigger.ranges() if part["partition"] == partition]
        assert [part["start_offset"] for part in parts] == [0, *(part["end_offset"] for part in parts)][:-1]
        assert len(parts) <= len(found)
    log = backlog.api.log_text(backlog.create(backlog.ingest_runs()[0]))
    assert log.count("e2e.backlog 0  [") > 1


def test_clearing_its_task_replays_all_ranges_of_the_batch_doubles_nothing_and_moves_nothing(
    backlog: Flow, drained: list[Place]
) -> None:
    run = backlog.ingest_runs()[0]
    first, second = (
        next(part for part in backlog.trigger.ranges() if part["partition"] == number) for number in (0, 1)
    )
    before = backlog.trigger.next_offsets(), [found["id"] for found in backlog.trigger.batches()]
    assert backlog.trigger.group_offsets() == before[0]
    for part in (first, second):
        last = part["end_offset"] - 1
        assert backlog.trigger.delete_work_orders(part["partition"], range(last, last + 1)) == 1
    assert not backlog.trigger.has_all(drained)
    backlog.api.clear_task(run, backlog.create_task)
    until_tried_again(backlog, run, 1)
    assert backlog.create(run).state == "success"
    assert backlog.trigger.has_all(drained)
    assert (backlog.trigger.next_offsets(), [found["id"] for found in backlog.trigger.batches()]) == before
    assert backlog.trigger.group_offsets() == before[0]


def test_a_task_that_is_killed_while_its_batch_grows_loses_and_doubles_nothing(
    backlog: Flow, drained: list[Place]
) -> None:
    before = len(backlog.trigger.batches())
    drained += let_wait(backlog, some_events(25 * SIZE, 2))

    def grown() -> int | None:
        rounds = Counter(part["batch_id"] for part in backlog.trigger.ranges())
        return next((found["id"] for found in backlog.trigger.batches()[before:] if rounds[found["id"]] > 6), None)

    batch = eventually(grown, seconds=SECONDS, every=0.05, what="a few rounds of a batch")
    with backlog.trigger.planning_held():  # so that it does not end before it is killed
        run = next(run for run in backlog.ingest_runs() if run.id == f"batch_{batch}")
        pid = backlog.create(run).pid
        assert pid is not None
        psutil.Process(pid).kill()
    backlog.until_ingested(drained)
    assert backlog.create(run).try_number == 2
    assert {run.id for run in backlog.ingest_runs()} == {f"batch_{batch['id']}" for batch in backlog.trigger.batches()}
