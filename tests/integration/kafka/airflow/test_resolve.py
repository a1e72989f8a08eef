"""The form's operator, as a worker runs it: what it logs, and what it does."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.definitions import define
from support.in_process_trigger import InProcessTrigger, kept
from support.ingesting import everything
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import find as find_trigger
from workorders.kafka.airflow import resolve
from workorders.kafka.airflow.resolve import ResolveOperator
from workorders.kafka.exceptions import DecisionRefusedError
from workorders.kafka.recovery.resolution import list_decisions

pytestmark = pytest.mark.integration


@pytest.fixture
def connections(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's connections lead to the stack."""
    monkeypatch.setattr(resolve, "database_url", lambda _: stack.database_url)
    monkeypatch.setattr(resolve, "kafka_settings", lambda _: stack.kafka_settings)


def submit(name: str, *, user: str | None = "ada", run_id: str = "first", clears: int = 0, **fields: Any) -> list[str]:
    """Run the task of a form that was filled in so, whose Dag run was cleared `clears` times."""
    params = {
        "trigger": name, "decision": "skip-lost", "topic": name, "partitions": [], "offset": None, "time": None,
        "reason": "a test", "dry_run": True,
    } | fields  # fmt: skip
    run = SimpleNamespace(
        triggering_user_name=user, dag_id="workorders_resolve", run_id=f"{name} {run_id}", clear_number=clears
    )
    context: Any = {"params": params, "dag_run": run}
    return ResolveOperator(task_id="apply_decision", definitions=[define("another"), define(name)]).execute(context)


def test_a_form_with_dry_run_logs_what_it_would_do_and_changes_nothing(
    connections: None, connection: Connection, stalled: int, name: str
) -> None:
    before = everything(connection, find_trigger(connection, name))
    (sentence,) = submit(name)
    assert "offsets [10, 15) (5) get no work order" in sentence
    assert everything(connection, find_trigger(connection, name)) == before


def test_a_form_without_dry_run_decides_in_the_name_of_the_user_who_sent_it(
    connections: None, connection: Connection, idle_trigger: InProcessTrigger, stalled: int, name: str
) -> None:
    submit(name, dry_run=False)
    idle_trigger.until_idle()
    assert [len(found) for found in kept(connection, name).values()] == [15]
    (decision,) = list_decisions(connection, name)
    assert (decision.actor, decision.reason, decision.kind) == ("ada", "a test", "skip-lost")


def test_a_form_without_a_user_is_recorded_as_such(
    connections: None, connection: Connection, idle_trigger: InProcessTrigger, name: str
) -> None:
    submit(name, user=None, dry_run=False, decision="seek", partitions=[0], offset=4)
    (decision,) = list_decisions(connection, name)
    assert decision.actor == "unknown user"
    assert (decision.from_offset, decision.to_offset) == (10, 4)


def test_a_form_may_name_a_time_instead_of_an_offset(
    connections: None, connection: Connection, idle_trigger: InProcessTrigger, name: str
) -> None:
    submit(name, dry_run=False, decision="seek", partitions=[0], time="2020-01-01T00:00:00+00:00")
    (decision,) = list_decisions(connection, name)
    assert (decision.from_offset, decision.to_offset) == (10, 0)
    with pytest.raises(DecisionRefusedError, match="time: nothing was changed, because this takes a time such as"):
        submit(name, run_id="second", dry_run=False, decision="seek", partitions=[0], time="soon")


def test_a_form_that_does_not_fit_fails_with_the_sentence(
    connections: None, idle_trigger: InProcessTrigger, name: str
) -> None:
    with pytest.raises(DecisionRefusedError, match=r"no partition of .* needs the decision skip-lost; nothing was"):
        submit(name, dry_run=False)


def test_a_dag_run_that_is_cleared_decides_nothing_again_and_reports_what_it_decided(
    connections: None, connection: Connection, idle_trigger: InProcessTrigger, name: str
) -> None:
    back: dict[str, Any] = {"decision": "seek", "partitions": [0], "offset": 4, "dry_run": False}
    submit(name, **back)
    idle_trigger.until_idle()  # the ledger is at 10 again, so the same form would go back once more
    before = everything(connection, find_trigger(connection, name))
    (sentence,) = submit(name, clears=1, **back)
    assert re.search(r"^Decision \d+ by ada at .*: seek: the ledger went from 10 to 4\.$", sentence)
    assert len(list_decisions(connection, name)) == 1
    assert everything(connection, find_trigger(connection, name)) == before
    submit(name, run_id="second", user="grace", **back)
    assert [(decision.actor, decision.account) for decision in list_decisions(connection, name)] == [
        ("grace", "grace"), ("ada", "ada"),
    ]  # fmt: skip


def test_a_dag_run_that_had_decided_nothing_before_it_was_cleared_is_refused(
    connections: None, connection: Connection, stalled: int, name: str
) -> None:
    with pytest.raises(DecisionRefusedError, match="does not tell who cleared it; nothing was decided"):
        submit(name, clears=1, dry_run=False)
    assert list_decisions(connection, name) == []
    (sentence,) = submit(name, clears=1)
    assert "offsets [10, 15) (5) get no work order" in sentence
