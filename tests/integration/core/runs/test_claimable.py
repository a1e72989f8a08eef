"""Which workflows have something to do."""

import json
from typing import Any

import pytest

from support.working import Working, positions
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import Claimable, ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.workers import add_worker

pytestmark = pytest.mark.integration


def claimable(connection: Connection, *names: str) -> list[Any]:
    found = claiming.list_claimable(connection, names)
    connection.commit()
    return [claimable.workflow for claimable in found]


def test_a_workflow_is_named_while_a_work_order_waits_and_not_while_it_is_at_work(
    connection: Connection, name: str
) -> None:
    at = Working.on(connection, name)
    assert claimable(connection, name) == []
    at.create_some(1)
    assert claimable(connection, name, "unheard-of") == [name]
    worker = at.claim_as_worker()
    assert claimable(connection, name) == []
    worker.succeed()
    assert claimable(connection, name) == []


def test_a_workflow_whose_group_fell_silent_is_named(connection: Connection, name: str) -> None:
    at = Working.on(connection, name)
    at.create_some(1)
    at.claim_as_worker().fall_silent()
    assert claimable(connection, name) == [name]
    assert claiming.list_claimable(connection, [name]) == [Claimable(name, is_claimable=False, has_lost=True)]


def test_a_workflow_is_not_named_while_as_many_runs_are_at_work_as_it_allows(connection: Connection, name: str) -> None:
    at = Working.on(connection, name, concurrency=1)
    at.create_some(2)
    at.claim_as_worker()
    assert claimable(connection, name) == []


def test_a_retry_that_is_not_due_is_waited_for(connection: Connection, name: str) -> None:
    at = Working.on(connection, name, retries={"max_retries": 1, "first_delay": 3600})
    at.create_some(1)
    at.claim_as_worker().fail()
    assert claimable(connection, name) == []
    at.make_due()
    assert claimable(connection, name) == [name]


def test_a_work_order_between_many_that_wait_for_a_retry_is_found(connection: Connection, name: str) -> None:
    at = Working.on(connection, name, retries={"max_retries": 1, "first_delay": 3600})
    at.create_some(300)
    at.claim_as_worker(150).succeed()
    at.claim_as_worker(150).fail()
    for position in (*range(74), *range(76, 150)):
        at.rerun(position)
    at.claim_as_worker(148).fail()
    assert claimable(connection, name) == []
    # As one whose transaction took longer than those of all newer ones.
    at.put_back(75)
    assert (claimable(connection, name), positions(at.claim())) == ([name], [75])


@pytest.mark.parametrize("end", ["failed", "silent"])
def test_an_ordering_key_whose_first_run_waits_for_its_retry_is_not_named_until_it_is_due(
    connection: Connection, name: str, end: str
) -> None:
    at = Working.on(connection, name, ordering_key="stream", retries={"max_retries": 3, "first_delay": 3600})
    at.create_some(3)
    worker = at.claim_as_worker(2)
    lifecycle.start(connection, worker.id, worker.run_ids[:1])
    if end == "failed":
        worker.finish("failed")
    else:
        worker.fall_silent()
        lifecycle.recover_lost(connection, at.workflow)
        connection.commit()
    assert (claimable(connection, name), at.claim()) == ([], [])
    at.make_due()
    assert (claimable(connection, name), positions(at.claim())) == ([name], [0, 1, 2])


def test_a_workflow_with_an_ordering_key_is_named_exactly_if_a_claim_would_return_a_run(
    connection: Connection, name: str
) -> None:
    at = Working.on(connection, name, ordering_key="body:/key", retries={"max_retries": 1, "first_delay": 3600})
    worker_id = add_worker(connection, at.workflow)

    def create(stream: str | None, *bodies: dict[str, str]) -> None:
        at.create(
            Item(stream, number if stream else None, b"{}", json.dumps(body).encode())
            for number, body in enumerate(bodies)
        )

    def require(expected: int) -> list[ClaimedRun]:
        named = claimable(connection, name)
        claimed = claiming.claim(connection, at.workflow, limit=5, worker_id=worker_id, one_per_ordering_key=True)
        connection.commit()
        assert (named, len(claimed)) == ([name] * (expected > 0), expected)
        return claimed

    create("ward", *({"key": key} for key in "aabb"))
    first, _ = require(2)
    require(0)
    lifecycle.finish(connection, worker_id, [RunResult(run_id=first.run_id, state="failed")])
    connection.commit()
    require(0)
    create(None, {})
    require(1)
    create("another ward", {"key": "c"})
    require(1)
    at.make_due()
    require(1)
