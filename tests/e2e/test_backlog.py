"""While a backlog waits, the task of one batch takes the next ones, and each is a run of its own."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest

from e2e.test_replay import until_tried_again
from support.airflow_api import AirflowApi, Run, Task
from support.eventually import eventually
from support.flow import SECONDS, Flow
from support.observed_trigger import INVALID, ObservedTrigger, Place, by_partition, some_events

SIZE = 40
"""Messages of a full batch, as in the trigger's file."""


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


@pytest.fixture(scope="module")
def drained(backlog: Flow) -> list[Place]:
    """Ten full batches that waited together, ingested."""
    places = let_wait(backlog, some_events(10 * SIZE, 2))
    backlog.until_ingested(places)
    return places


def test_each_batch_of_a_backlog_is_a_run_of_its_own_and_takes_the_offsets_in_order(
    backlog: Flow, drained: list[Place]
) -> None:
    found = backlog.trigger.batches()
    assert len(found) == 10
    # The run of a batch that was taken is started later than one that the listener may have planned meanwhile.
    assert sorted(run.id for run in backlog.ingest_runs()) == sorted(f"batch_{batch['id']}" for batch in found)
    assert {run.state for run in backlog.ingest_runs()} == {"success"}
    for partition in (0, 1):
        ends = [0, *(part["end_offset"] for part in backlog.trigger.ranges() if part["partition"] == partition)]
        starts = [part["start_offset"] for part in backlog.trigger.ranges() if part["partition"] == partition]
        assert starts == ends[:-1]


def test_the_listener_plans_the_first_batch_and_its_task_takes_the_others(backlog: Flow, drained: list[Place]) -> None:
    first, *others = backlog.trigger.batches()
    assert first["taken_by"] is None
    # A slow machine may need more than one task for them.
    assert sum(batch["taken_by"] is None for batch in others) <= 2
    planned = [run for run in backlog.finished_listener_runs() if backlog.api.task(run, "plan_batch").state]
    assert len(planned) <= 5


def test_the_run_of_a_batch_that_was_taken_is_skipped_with_who_ingested_it(backlog: Flow, drained: list[Place]) -> None:
    batch, run = taken(backlog)
    create = backlog.create(run)
    assert create.state == "skipped"
    assert backlog.api.task(run, "commit_offsets").state == "skipped"
    lines = backlog.api.log(create)
    reason = next(line["reason"] for line in lines if line["event"] == "Skipping task.")
    assert f"the task of run batch_{batch['taken_by']} ingested it while a backlog waited" in reason
    assert "20 created, 0 rejected, 0 existing" in backlog.api.log_text(create)
    assert run.note == ", ".join(
        f"e2e.backlog {part['partition']} [{part['start_offset']}, {part['end_offset']})"
        for part in backlog.trigger.ranges()
        if part["batch_id"] == batch["id"]
    )


def test_clearing_it_replays_exactly_this_batch(backlog: Flow, drained: list[Place]) -> None:
    batch, run = taken(backlog)
    first, _ = (part for part in backlog.trigger.ranges() if part["batch_id"] == batch["id"])
    before = backlog.trigger.next_offsets(), [found["id"] for found in backlog.trigger.batches()]
    gone = range(first["start_offset"], first["start_offset"] + 1)
    assert backlog.trigger.delete_work_orders(first["partition"], gone) == 1
    backlog.api.clear_task(run, backlog.create_task)
    until_tried_again(backlog, run, 1)
    assert backlog.create(run).state == "success"
    assert backlog.trigger.has_all(drained)
    assert (backlog.trigger.next_offsets(), [found["id"] for found in backlog.trigger.batches()]) == before


def test_no_batch_is_taken_while_the_listener_is_paused(backlog: Flow, drained: list[Place]) -> None:
    with backlog.held_back(some_events(3 * SIZE, 2)) as places:
        drained += places
        run = backlog.ingest_runs()[-1]
        backlog.api.set_paused(backlog.listener, paused=True)
        backlog.api.set_paused(backlog.ingest, paused=False)
        eventually(
            lambda: [one.id for one in backlog.ingest_runs() if one.state == "success"][-1] == run.id,
            seconds=SECONDS,
            what="the end of the run",
        )
        assert f"batch_{backlog.trigger.batches()[-1]['id']}" == run.id
        assert not backlog.trigger.has_all(drained)
        backlog.api.set_paused(backlog.listener, paused=False)
    backlog.until_ingested(drained)


def test_a_task_that_is_killed_between_two_batches_loses_and_doubles_nothing(
    backlog: Flow, drained: list[Place]
) -> None:
    before = len(backlog.trigger.batches())
    drained += let_wait(backlog, some_events(25 * SIZE, 2))
    eventually(
        lambda: sum(batch["taken_by"] is not None for batch in backlog.trigger.batches()[before:]) > 2,
        seconds=SECONDS,
        every=0.05,
        what="a few batches that a task took",
    )
    taker = next(batch["taken_by"] for batch in backlog.trigger.batches()[before:] if batch["taken_by"] is not None)
    run = next(run for run in backlog.ingest_runs() if run.id == f"batch_{taker}")
    pid = backlog.create(run).pid
    assert pid is not None
    psutil.Process(pid).kill()
    backlog.until_ingested(drained)
    assert backlog.create(run).try_number == 2
    names = {f"batch_{batch['id']}" for batch in backlog.trigger.batches()}
    eventually(
        lambda: {run.id for run in backlog.ingest_runs() if run.state == "success"} == names,
        seconds=SECONDS,
        what="a run for each batch",
    )


# While the task that takes batches has the one slot, the listener, which may plan at any time, cannot plan the batch
# that fails.
@pytest.mark.usefixtures("one_worker")
def test_a_batch_that_fails_has_its_error_in_its_own_run_and_the_other_partition_continues(
    backlog: Flow, drained: list[Place]
) -> None:
    before = len(backlog.trigger.batches())
    bad = [(1, value) for value in INVALID.values()] * 5
    values = [*some_events(3 * SIZE, 2), *bad, *some_events(3 * SIZE, 1)]
    places = let_wait(backlog, values)
    good = by_partition(place for place in [*drained, *places] if place.partition == 0)
    eventually(lambda: backlog.trigger.work_orders()[0] == good[0], seconds=SECONDS, what="all of partition 0")
    stalled = backlog.trigger.ledger()[1]
    assert stalled["status"] == "stalled"
    failed = next(
        batch for batch in backlog.trigger.batches()[before:] if batch["id"] == failed_batch(backlog)["batch_id"]
    )
    assert failed["taken_by"] is not None
    runs = {run.id: run for run in backlog.ingest_runs()}
    failing = runs[f"batch_{failed['id']}"]
    backlog.until_failed(failing)
    assert "were rejected" in backlog.api.error(backlog.create(failing), 1)
    taker: Task = backlog.create(runs[f"batch_{failed['taken_by']}"])
    assert (taker.state, taker.try_number) == ("success", 1)


def taken(flow: Flow) -> tuple[dict[str, Any], Run]:
    """Return the first batch that a task took, and its run."""
    batch = next(batch for batch in flow.trigger.batches() if batch["taken_by"] is not None)
    return batch, next(run for run in flow.ingest_runs() if run.id == f"batch_{batch['id']}")


def failed_batch(flow: Flow) -> dict[str, Any]:
    """Return the one unfinished range."""
    (unfinished,) = (part for part in flow.trigger.ranges() if part["finished_at"] is None)
    return unfinished
