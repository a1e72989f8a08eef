"""One suite of behaviours for every trigger type: the life of a work order is the same, whatever created it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from support.runs import keeping
from support.trigger_types import SOURCES, Event, MakeSource, Source
from workorders.core import triggers, workflows
from workorders.core.definitions.trigger import trigger_types
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.history import runs as run_history
from workorders.core.history import work_orders as history
from workorders.core.history.filters import Filter
from workorders.core.history.work_orders import WorkOrderSummary
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, RunResult
from workorders.core.workers import add_worker

pytestmark = pytest.mark.integration


def work_orders(connection: Connection, source: Source, **wanted: Any) -> list[WorkOrderSummary]:
    """Return the work orders of a source, oldest first."""
    listed = history.list_work_orders(connection, Filter(workflow=source.name, **wanted))
    connection.rollback()
    return listed[::-1]


def inputs(connection: Connection, source: Source) -> list[Event]:
    """Return the inputs of a source's work orders, oldest first."""
    rows = connection.execute(
        """
        SELECT dataclips.body FROM workorders.work_orders
        JOIN workorders.workflows ON workflows.id = work_orders.workflow_id
        JOIN workorders.dataclips ON dataclips.id = work_orders.id
        WHERE workflows.name = %s ORDER BY work_orders.id
        """,
        (source.name,),
    ).fetchall()
    connection.rollback()
    return [row[0] for row in rows]


def define_workflow(connection: Connection, source: Source, **fields: Any) -> None:
    """Register the source's workflow, with some fields."""
    definition = WorkflowDefinition.model_validate({"name": source.name, "callable": "a.module:function", **fields})
    workflows.register(connection, definition)
    connection.commit()


def claim(connection: Connection, source: Source, limit: int = 100) -> tuple[UUID, list[ClaimedRun]]:
    """Claim and start the available runs, for another worker."""
    workflow = workflows.find(connection, source.name)
    worker_id = add_worker(connection, workflow)
    claimed = claiming.claim(connection, workflow, limit=limit, worker_id=worker_id)
    lifecycle.start(connection, worker_id, [run.run_id for run in claimed])
    connection.commit()
    return worker_id, claimed


def work(connection: Connection, source: Source, state: FinalState = "success", **result: Any) -> list[ClaimedRun]:
    """Process all runs that wait; each one ends so."""
    worker_id, claimed = claim(connection, source)
    results = [RunResult(run_id=run.run_id, state=state, **result) for run in claimed]
    lifecycle.finish(connection, worker_id, results)
    connection.commit()
    return claimed


def states(connection: Connection, source: Source) -> list[str]:
    """Return the states of a source's work orders, oldest first."""
    return [order.state for order in work_orders(connection, source)]


FIVE: list[Event] = [{"number": number} for number in range(5)]


def test_every_type_that_is_installed_is_here() -> None:
    assert set(SOURCES) == set(trigger_types())


def test_each_event_becomes_a_work_order_that_waits_in_the_order_of_its_source(
    source: Source, connection: Connection
) -> None:
    assert source.send(*FIVE) == "taken"
    assert inputs(connection, source) == FIVE
    listed = work_orders(connection, source)
    assert {(order.trigger, order.workflow, order.state) for order in listed} == {(source.name, source.name, "pending")}
    assert triggers.find(connection, source.name).type == source.type
    for order in listed:
        assert history.get_work_order(connection, order.id).request not in {None, "{}"}


def test_an_event_that_comes_again_creates_nothing(source: Source, connection: Connection) -> None:
    source.send(*FIVE)
    before = work_orders(connection, source)
    assert source.send_again() == "taken"
    assert work_orders(connection, source) == before
    source.send({"number": 5})
    assert len(work_orders(connection, source)) == 6


def test_an_event_that_comes_again_after_its_work_is_done_creates_nothing(
    source: Source, connection: Connection
) -> None:
    source.send(*FIVE)
    define_workflow(connection, source)
    work(connection, source)
    source.send_again()
    assert states(connection, source) == ["success"] * 5


def test_what_can_be_no_input_is_kept_as_rejected_or_its_source_is_told(source: Source, connection: Connection) -> None:
    source.send({"number": 0})
    answer = source.spoil()
    rejected = work_orders(connection, source, state="rejected")
    assert (answer, [order.reason for order in rejected]) in [("taken", ["not-an-object"]), ("refused", [])]
    define_workflow(connection, source)
    assert len(work(connection, source)) == 1


def test_a_repeat_by_the_triggers_own_key_is_kept_as_a_duplicate(
    make_source: MakeSource, connection: Connection
) -> None:
    source = make_source(idempotency={"key": "body:/id", "window": "1h"})
    assert source.send({"id": 1}, {"id": 2}, {"id": 1, "late": True}) == "taken"
    first, _, repeat = work_orders(connection, source)
    assert states(connection, source) == ["pending", "pending", "rejected"]
    assert repeat.reason == "duplicate"
    assert history.get_work_order(connection, repeat.id).duplicate_of == first.id
    define_workflow(connection, source)
    assert len(work(connection, source)) == 2


def test_what_is_numbered_waits_for_the_gap_before_it(make_source: MakeSource, connection: Connection) -> None:
    source = make_source(sequence={"key": "body:/k", "number": "body:/n"})
    source.send({"k": "a", "n": 0}, {"k": "a", "n": 2})
    assert states(connection, source) == ["pending", "parked"]
    source.send({"k": "a", "n": 1})
    assert states(connection, source) == ["pending"] * 3


def test_beyond_a_limit_that_rejects_events_are_kept_as_rejected(source: Source, connection: Connection) -> None:
    define_workflow(connection, source, limits={"max_waiting": 3})
    assert source.send(*FIVE) == "taken"
    assert states(connection, source) == ["pending"] * 3 + ["rejected"] * 2
    assert {order.reason for order in work_orders(connection, source, state="rejected")} == {"run-limit"}


def test_beyond_a_limit_that_waits_the_source_must_wait_and_nothing_is_lost(
    source: Source, connection: Connection
) -> None:
    define_workflow(connection, source, limits={"max_waiting": 5, "on_reached": "wait"})
    assert source.send(*FIVE[:4]) == "taken"
    assert source.send(FIVE[4], {"number": 5}) == "must wait"
    assert len(work_orders(connection, source)) <= 5
    assert set(states(connection, source)) == {"pending"}
    work(connection, source)
    assert source.send_again() == "taken"
    assert inputs(connection, source) == [*FIVE, {"number": 5}]


def test_runs_are_claimed_in_the_order_of_the_source(source: Source, connection: Connection) -> None:
    source.send(*FIVE)
    define_workflow(connection, source, concurrency=2)
    worker_id, first = claim(connection, source)
    assert len(first) == 2
    assert claim(connection, source)[1] == []
    lifecycle.finish(connection, worker_id, [RunResult(run_id=run.run_id, state="success") for run in first])
    connection.commit()
    _, second = claim(connection, source)
    assert [run.work_order_id for run in [*first, *second]] == [order.id for order in work_orders(connection, source)][
        :4
    ]


def test_an_ordering_key_applies_from_the_first_event_on_although_the_workflow_never_ran(
    source: Source, connection: Connection
) -> None:
    source.add_workflow_file(ordering_key="body:/another")
    source.add_workflow_file(ordering_key="body:/ordering_key")
    source.send(*({"ordering_key": number % 2, "number": number} for number in range(4)))
    _, claimed = claim(connection, source)
    by_ordering_key: dict[int | None, list[UUID]] = {}
    for run in claimed:
        by_ordering_key.setdefault(run.ordering_key, []).append(run.work_order_id)
    ids = [order.id for order in work_orders(connection, source)]
    assert sorted(by_ordering_key.values()) == sorted([ids[::2], ids[1::2]])


def test_a_run_has_the_input_and_the_request_and_its_output_is_kept(source: Source, connection: Connection) -> None:
    source.send({"number": 7})
    define_workflow(connection, source)
    (run,) = work(connection, source, output=b'{"shipped": true}')
    assert run.body is not None
    assert b'"number": 7' in run.body
    assert run.trigger == source.name
    outcome = run_history.find_outcome(connection, run.work_order_id)
    assert outcome is not None
    assert (outcome.state, outcome.output) == ("success", '{"shipped": true}')


def test_what_retention_deleted_does_not_come_back_as_new(source: Source, connection: Connection) -> None:
    source.send(*FIVE)
    keeping(connection, source.name, delete_after="10d", delete_errors_after="100d")
    work(connection, source)
    retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=11), pause=lambda _: None)
    assert states(connection, source) == []
    assert source.send_again() == ("taken" if source.type in {"webhook", "manual"} else "refused")
    assert states(connection, source) == []
    source.send({"number": 5})
    assert states(connection, source) == ["pending"]
