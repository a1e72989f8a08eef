import json
from pathlib import Path

import pytest

from support.command import Command
from workorders.core.definitions.json_schema import trigger_schema

TRIGGER_FILE = "name: orders\ntype: kafka\nworkflow: ship\ntopics: [orders]\n"


@pytest.fixture
def workorders(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command line where nothing is set up."""
    for name in ("WORKORDERS_DATABASE_URL", "WORKORDERS_KAFKA", "WORKORDERS_TRIGGERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("workorders.cli.connections.airflow_is_configured", lambda: False)
    return Command(monkeypatch, capsys)


def test_without_a_database_one_sentence_tells_how_to_name_one(workorders: Command) -> None:
    ended = workorders("status")
    assert (ended.code, ended.out) == (1, "")
    assert "set WORKORDERS_DATABASE_URL to postgresql://" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_wrong_database_url_is_not_repeated(workorders: Command) -> None:
    ended = workorders("status", "--database", "secret word")
    assert ended.code == 1
    assert "secret" not in ended.err


def test_without_a_folder_one_sentence_tells_how_to_name_one(workorders: Command) -> None:
    ended = workorders("triggers", "list")
    assert ended.code == 1
    assert "give --folder" in ended.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("work-orders", "list", "--state", "done"), "expected one of pending, requeued, running"),
        (("work-orders", "list", "--since", "yesterday"), "expected a time such as"),
        (("work-orders", "list", "--before", "7"), "--before"),
        (("work-orders", "list", "--limit", "0"), "--limit"),
        (("work-orders", "show", "7"), "ID"),
        (("nonsense",), "nonsense"),
    ],
)
def test_a_wrong_call_ends_with_2_and_names_what_is_right(
    workorders: Command, arguments: tuple[str, ...], word: str
) -> None:
    ended = workorders(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert word in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("triggers", "list"),
        ("triggers", "check"),
        ("triggers", "schema"),
        ("work-orders", "list"),
        ("work-orders", "count"),
        ("work-orders", "show"),
        ("create",),
        ("batches", "list"),
        ("batches", "show"),
        ("db", "upgrade"),
        ("db", "version"),
    ],
)
def test_every_help_has_an_example_on_a_line_of_its_own(workorders: Command, arguments: tuple[str, ...]) -> None:
    ended = workorders(*arguments, "--help")
    assert ended.code == 0
    assert any(line.strip().startswith(f"workorders {' '.join(arguments)}") for line in ended.out.splitlines())


def test_the_schema_is_the_published_one(workorders: Command) -> None:
    assert json.loads(workorders("triggers", "schema", "webhook").out) == trigger_schema("webhook")


def test_a_right_file_and_a_wrong_one_are_checked(workorders: Command, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TRIGGER_FILE)
    (tmp_path / "b.yaml").write_text("name: b\ntype: kafka\n")
    right = workorders("triggers", "check", str(tmp_path / "a.yaml"))
    assert (right.code, right.out) == (0, "a.yaml: trigger orders is valid.\n")
    both = workorders("triggers", "check", str(tmp_path))
    assert (both.code, both.out) == (1, "a.yaml: trigger orders is valid.\n")
    assert both.err == "b.yaml: workflow: this field is required.\nb.yaml: topics: this field is required.\n"
    (tmp_path / "b.yaml").write_text("name: b\ntype: cron\nworkflow: w\nschedule: * * * * *\n")
    sentence = 'schedule: YAML does not read a value that begins with *; quote it: schedule: "* * * * *"'
    assert workorders("triggers", "check", str(tmp_path)).err == f"b.yaml, line 4: {sentence}\n"


def test_a_name_that_two_files_give_is_wrong_in_the_second(workorders: Command, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TRIGGER_FILE)
    (tmp_path / "b.yaml").write_text(TRIGGER_FILE)
    ended = workorders("triggers", "check", str(tmp_path))
    assert ended.code == 1
    assert ended.err.startswith("b.yaml: name: trigger orders is already defined in a.yaml")


def test_a_folder_without_trigger_files_is_wrong(workorders: Command, tmp_path: Path) -> None:
    ended = workorders("triggers", "check", str(tmp_path))
    assert ended.code == 1
    assert "has no trigger file" in ended.err
