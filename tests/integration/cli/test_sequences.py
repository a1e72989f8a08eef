"""Gaps in sequences by command: what is shown, asked and done."""

from typing import Any

import pytest
import typer

from support.admission import BY_NUMBER, event, outcome, register
from support.command import Command
from workorders.core.creation.work_orders import create_for
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """A trigger with a gap of two numbers in one sequence."""
    found = register(connection, name, sequence={**BY_NUMBER, "alert_after": 0})
    create_for(connection, found, [event(None, key="order-7", number=number) for number in (1, 4, 5, 7)])
    connection.commit()
    return found


def states(connection: Connection, trigger: Trigger) -> list[str]:
    found = [state for _, state, _ in outcome(connection, trigger, "number")]
    connection.rollback()
    return found


def test_the_list_names_the_gap_and_the_line_of_the_alert_works(
    workorders: Command, connection: Connection, trigger: Trigger
) -> None:
    (gap,) = workorders("sequences", "list", "--trigger", trigger.name, "--json").json()
    assert (gap["name"], gap["high_water_mark"], gap["next_parked"], gap["parked"]) == ('"order-7"', 1, 4, 3)
    names = "trigger key name high_water_mark next_parked next_id parked parked_since alerted"
    assert set(gap) == set(names.split())
    assert gap["key"] in workorders("sequences", "list").out
    done = workorders("sequences", "skip", trigger.name, gap["key"], "--reason", "never sent", "--yes")
    assert done.out == f"Done: 2 work orders of sequence {gap['key']} were admitted (4 to 5).\n"
    assert states(connection, trigger) == ["pending", "pending", "pending", "parked"]


@pytest.mark.parametrize("answer", [False, True])
def test_without_yes_it_prints_what_follows_and_asks(
    workorders: Command, connection: Connection, trigger: Trigger, monkeypatch: pytest.MonkeyPatch, *, answer: bool
) -> None:
    def confirm(_: Any) -> bool:
        return answer

    monkeypatch.setattr(typer, "confirm", confirm)
    ended = workorders("sequences", "release", trigger.name, "order-7", "--reason", "closed")
    assert "will be rejected if they still come" in ended.out
    assert ended.code == (0 if answer else 1)
    assert states(connection, trigger) == ["pending", *["pending" if answer else "parked"] * 3]


def test_dropping_what_is_parked_is_refused(workorders: Command, trigger: Trigger) -> None:
    refused = workorders("sequences", "drop", trigger.name, "order-7", "--reason", "x", "--yes")
    assert refused.code == 1
    assert "3 parked work orders and cannot be dropped" in refused.err


def test_a_finished_sequence_is_dropped(workorders: Command, connection: Connection, trigger: Trigger) -> None:
    workorders("sequences", "release", trigger.name, "order-7", "--reason", "closed", "--yes")
    ended = workorders("sequences", "drop", trigger.name, "order-7", "--reason", "delivered", "--yes")
    assert ended.code == 0, ended.err
    again = workorders("sequences", "drop", trigger.name, "order-7", "--reason", "x", "--yes")
    assert "has no sequence of that key; nothing was changed; see `workorders sequences list`" in again.err
