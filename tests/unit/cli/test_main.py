import json
from pathlib import Path

import pytest

from support.command import Command
from workorders.core.definitions.json_schema import WORKFLOW, published, trigger_schema

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


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("work-orders", "list", "--state", "done"), "'done' is not one of 'pending', 'requeued', 'running'"),
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


def test_the_schemas_are_the_published_ones(workorders: Command) -> None:
    assert json.loads(workorders("triggers", "schema", "webhook").out) == trigger_schema("webhook")
    assert workorders("workflows", "schema").out == published(WORKFLOW)


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


@pytest.mark.parametrize("kind", ["trigger", "workflow"])
def test_a_folder_without_files_is_wrong(workorders: Command, tmp_path: Path, kind: str) -> None:
    ended = workorders(f"{kind}s", "check", str(tmp_path))
    assert ended.code == 1
    assert f"has no {kind} file" in ended.err


def test_workflow_files_are_checked_as_well(workorders: Command, tmp_path: Path) -> None:
    (tmp_path / "right.yaml").write_text("name: ship\ncallable: shop:ship\n", encoding="utf-8")
    assert workorders("workflows", "check", str(tmp_path)).code == 0
    (tmp_path / "wrong.yaml").write_text("name: bill\ncalable: shop:bill\n", encoding="utf-8")
    ended = workorders("workflows", "check", str(tmp_path))
    assert (ended.code, ended.out) == (1, "right.yaml: workflow ship is valid.\n")
    assert "wrong.yaml, line 2: calable: there is no such field; did you mean callable?" in ended.err
