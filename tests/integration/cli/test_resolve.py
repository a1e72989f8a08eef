"""Decisions by command: what is shown, asked, done and recorded."""

import json
from typing import Any

import pytest
import typer

from local_stack.stack import LocalStack
from support.command import Command
from support.in_process_trigger import InProcessTrigger, kept
from support.ingesting import everything
from workorders.cli.options import account
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import find as find_trigger

pytestmark = pytest.mark.integration


def database(connection: Connection, name: str) -> dict[str, list[tuple[Any, ...]]]:
    return everything(connection, find_trigger(connection, name))


def sentence(name: str, batch: int) -> str:
    return (
        f"{name}: {name} 0: skip-lost: the ledger goes from 10 to 15; offsets [10, 15) (5) get no work order "
        f"because retention deleted them before they were read; range [10, 20) of batch {batch} is superseded."
    )


def test_the_status_of_a_stalled_partition_names_the_line_to_type_and_the_line_works(
    stack: LocalStack, workorders: Command, connection: Connection, stalled: int, name: str
) -> None:
    shown = workorders("status", name).out
    line = f"workorders resolve skip-lost {name} {name} --partition 0"
    assert f"`{line}`" in shown
    ended = workorders(*line.split()[1:], "--reason", "retention was too short", "--yes")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[0] == sentence(name, stalled)
    assert ended.out.splitlines()[1].startswith("Applied and recorded as decision ")
    InProcessTrigger(stack, name).until_idle()
    assert [sum(1 for _ in found) for found in kept(connection, name).values()] == [15]


def test_a_dry_run_only_shows(workorders: Command, connection: Connection, stalled: int, name: str) -> None:
    before = database(connection, name)
    ended = workorders("resolve", "skip-lost", name, name, "--reason", "x", "--dry-run")
    assert (ended.code, ended.out) == (0, f"{sentence(name, stalled)}\nNothing was changed.\n")
    answer = workorders("resolve", "skip-lost", name, name, "--reason", "x", "--dry-run", "--json").json()
    assert answer["applied"] is False
    assert (answer["decisions"][0]["lost_start"], answer["decisions"][0]["lost_end"]) == (10, 15)
    assert database(connection, name) == before


@pytest.mark.parametrize("answer", [False, True])
def test_without_yes_it_shows_and_asks(
    workorders: Command,
    connection: Connection,
    stalled: int,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    answer: bool,
) -> None:
    asked: list[str] = []

    def confirm(question: str) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(typer, "confirm", confirm)
    before = database(connection, name)
    ended = workorders("resolve", "skip-lost", name, name, "--reason", "x")
    assert asked == ["Continue?"]
    assert ended.out.startswith(sentence(name, stalled))
    assert ended.code == (0 if answer else 1)
    assert (database(connection, name) == before) is not answer


def test_a_decision_is_listed_with_actor_time_reason_from_and_to(workorders: Command, stalled: int, name: str) -> None:
    named = ("--actor", "ada", "--reason", "a weekend", "--yes")
    made = workorders("resolve", "skip-lost", name, name, *named, "--json").json()
    number = made["decisions"][0]["decision"]
    (row,) = workorders("decisions", "list", "--trigger", name, "--json").json()
    assert row == row | {
        "id": number,
        "actor": "ada",
        "account": account(),
        "reason": "a weekend",
        "trigger": name,
        "topic": name,
        "partition": 0,
        "kind": "skip-lost",
        "from_offset": 10,
        "to_offset": 15,
        "lost_start": 10,
        "lost_end": 15,
        "superseded_batch_id": stalled,
    }
    assert row["from_topic_id"] == row["to_topic_id"]
    assert len(row) == 16
    listed = workorders("decisions", "list", "--trigger", name).out
    assert "a weekend" in listed
    assert account() in listed
    shown = workorders("batches", "show", str(stalled)).out
    assert f"was superseded by decision {number} and is not ingested" in shown
    (range_,) = workorders("batches", "show", str(stalled), "--json").json()["ranges"]
    assert range_["superseded_by"] == number


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["skip-lost", "--reason", " ", "--yes"], 2, "expected the reason, which is recorded"),
        (["skip-lost", "--yes"], 2, "expected the reason, which is recorded"),
        (["accept-topic", "--reason", "x", "--yes"], 1, "no partition of"),
        (["seek", "--reason", "x", "--partition", "0", "--offset", "99", "--yes"], 1, "is not in the log"),
        (["seek", "--reason", "x", "--partition", "0", "--yes"], 2, "give --offset or --time."),
        (["seek", "--reason", "x", "--partition", "0", "--offset", "9", "--time", "2h"], 2, "give --offset or --time."),
        (["seek", "--reason", "x", "--partition", "0", "--time", "soon", "--yes"], 2, "expected a time such as"),
        (["skip-lost", "--reason", "x", "--json"], 2, "needs --dry-run or --yes"),
    ],
)
def test_what_does_not_fit_ends_with_a_sentence_and_changes_nothing(
    workorders: Command,
    connection: Connection,
    stalled: int,
    name: str,
    *,
    arguments: list[str],
    code: int,
    reason: str,
) -> None:
    before = database(connection, name)
    ended = workorders("resolve", arguments[0], name, name, *arguments[1:])
    assert ended.code == code
    assert reason in ended.err
    assert database(connection, name) == before


def test_settings_that_the_client_refuses_are_reported_and_change_nothing(
    workorders: Command,
    connection: Connection,
    stack: LocalStack,
    stalled: int,
    *,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORKORDERS_KAFKA", json.dumps({**stack.kafka_settings, "socket.timeout.ms": "soon"}))
    before = database(connection, name)
    ended = workorders("resolve", "skip-lost", name, name, "--reason", "x", "--yes")
    assert ended.code == 1
    assert "kafka_default: Kafka at " in ended.err
    assert "its client cannot start" in ended.err
    assert ended.err.endswith("Nothing was changed.\n")
    assert database(connection, name) == before
