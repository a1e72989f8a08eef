"""Work orders by the command line."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.command import Command
from support.definition_files import write_definitions
from workorders.core import triggers
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

pytestmark = pytest.mark.integration


def test_a_work_order_is_created_and_named(workorders: Command, trigger: Trigger) -> None:
    made = workorders(
        "create", trigger.name, "--body", '{"order": 17}', "--reason", "lost", "--actor", "ada", "--json"
    ).json()
    assert (made["state"], made["created"]) == ("pending", True)
    shown = workorders("work-orders", "show", made["work_order"], "--json").json()
    assert shown["trigger"] == trigger.name
    listed = workorders("work-orders", "show", made["work_order"]).out
    for part in ("17", "ada", "lost"):
        assert part in listed


def test_a_key_that_was_used_names_its_work_order(workorders: Command, trigger: Trigger, tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text("{}", encoding="utf-8")
    arguments = ("create", trigger.name, "--file", str(tmp_path / "input.json"), "--reason", "x", "--key", "k")
    first, again = workorders(*arguments), workorders(*arguments)
    assert first.out.endswith(f" of trigger {trigger.name} was created.\n")
    assert again.out.endswith(" (pending) has this key already; nothing was created.\n")
    assert first.out.split()[2] == again.out.split()[2]


def test_standard_input_is_read(workorders: Command, trigger: Trigger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"a": 1}')))
    assert workorders("create", trigger.name, "--file", "-", "--reason", "x").code == 0


def test_a_trigger_that_only_has_a_file_is_registered_with_its_workflow(
    workorders: Command, connection: Connection, tmp_path: Path, name: str
) -> None:
    folder = write_definitions(tmp_path / "triggers", {"name": name, "type": "manual", "workflow": name})
    write_definitions(tmp_path / "workflows", {"name": name, "callable": "a.b:c", "ordering_key": "body"})
    ended = workorders("create", name, "--body", "{}", "--reason", "x", "--folder", str(folder))
    assert (ended.code, ended.err) == (0, "")
    assert triggers.find(connection, name).ordering_key == "body"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--body", "[]"), 1, "the input must be a JSON object, and the value is an array, not an object"),
        (("--body", "{}", "--file", "-"), 2, "and not by both"),
        ((), 2, "and not by both"),
        (("--file", "nowhere.json"), 2, "nowhere.json"),
    ],
)
def test_what_does_not_fit_is_one_sentence(
    workorders: Command, trigger: Trigger, *, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    ended = workorders("create", trigger.name, "--reason", "x", *arguments)
    assert ended.code == code
    assert reason in " ".join(ended.err.split())


def test_an_unknown_trigger_is_one_sentence(workorders: Command, tmp_path: Path) -> None:
    ended = workorders("create", "unknown", "--body", "{}", "--reason", "x", "--folder", str(tmp_path))
    assert ended.code == 1
    assert ended.err.startswith("No trigger unknown is known here; nothing was created")
