"""Rerun, cancel, export and retention, the same for every trigger type."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.runs import claim, finish_all, keeping
from support.trigger_types import Event, Source
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.history import export, search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection

pytestmark = pytest.mark.integration

FIVE: list[Event] = [{"number": number} for number in range(5)]


def do(connection: Connection, source: Source, kind: str, **wanted: Any) -> Job:
    """Do something with all that match, and return the job as it ended."""
    connection.rollback()
    chosen = Filter(trigger=source.name, **wanted)
    job = jobs.create_job(connection, kind, chosen, actor="ada", reason="a test")
    connection.commit()
    return runner.run_job(connection, job.id, step=2)


def states(connection: Connection, source: Source) -> dict[str, int]:
    connection.rollback()
    return work_orders.count_by_state(connection, Filter(trigger=source.name))


def test_what_failed_is_rerun_on_the_same_input(source: Source, connection: Connection) -> None:
    source.send(*FIVE)
    first = finish_all(connection, source.name, "failed")
    assert do(connection, source, "rerun", state="failed").done == 5
    again = claim(connection, source.name)
    assert [(run.work_order_id, run.attempt, run.body) for run in again] == [
        (run.work_order_id, 2, run.body) for run in first
    ]


def test_what_waits_is_cancelled_and_never_runs(source: Source, connection: Connection) -> None:
    source.send(*FIVE)
    assert do(connection, source, "cancel").done == 5
    assert states(connection, source) == {"cancelled": 5}
    connection.rollback()
    assert claim(connection, source.name) == []


def test_everything_is_exported_with_its_input(source: Source, connection: Connection) -> None:
    source.send(*FIVE)
    connection.rollback()
    text = b"".join(export.parts(connection, Filter(trigger=source.name), "jsonl"))
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["body"] for line in lines] == FIVE
    assert {(line["trigger"], line["trigger_type"]) for line in lines} == {(source.name, source.type)}


def test_what_retention_deleted_does_not_come_back_as_new(source: Source, connection: Connection) -> None:
    source.send(*FIVE)
    keeping(connection, source.name, delete_after="10d", delete_errors_after="100d")
    finish_all(connection, source.name)
    retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=11), pause=lambda _: None)
    assert states(connection, source) == {}
    assert source.send_again() == ("taken" if source.type in {"webhook", "manual"} else "refused")
    assert states(connection, source) == {}
    source.send({"number": 5})
    assert states(connection, source) == {"pending": 1}


def test_a_word_of_the_input_finds_the_work_order(source: Source, connection: Connection) -> None:
    source.send({"shop": "northgate"}, {"shop": "southgate"})
    while search_index.index_new(connection, margin=timedelta()):
        connection.commit()
    found = work_orders.list_work_orders(connection, Filter(trigger=source.name, text="northgate"))
    assert [order.id for order in found] == [
        work_orders.list_work_orders(connection, Filter(trigger=source.name))[-1].id
    ]
