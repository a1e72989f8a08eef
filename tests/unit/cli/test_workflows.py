from pathlib import Path

import pytest

from support.command import Command
from workorders.core.definitions.json_schema import WORKFLOW, published


@pytest.fixture
def workorders(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line where nothing is set up."""
    monkeypatch.delenv("WORKORDERS_DATABASE_URL", raising=False)
    return Command(monkeypatch, capsys)


def test_right_and_wrong_files_are_told_apart_without_a_database(workorders: Command, tmp_path: Path) -> None:
    (tmp_path / "right.yaml").write_text("name: ship\ncallable: shop:ship\n", encoding="utf-8")
    assert workorders("workflows", "check", str(tmp_path)).code == 0
    (tmp_path / "wrong.yaml").write_text("name: bill\ncalable: shop:bill\n", encoding="utf-8")
    ended = workorders("workflows", "check", str(tmp_path))
    assert (ended.code, ended.out) == (1, "right.yaml: workflow ship is valid.\n")
    assert "wrong.yaml, line 2: calable: there is no such field; did you mean callable?" in ended.err


def test_a_folder_without_workflow_files_is_an_error(workorders: Command, tmp_path: Path) -> None:
    ended = workorders("workflows", "check", str(tmp_path))
    assert ended.code == 1
    assert "has no workflow file" in ended.err


def test_the_schema_is_printed(workorders: Command) -> None:
    assert workorders("workflows", "schema").out == published(WORKFLOW)
