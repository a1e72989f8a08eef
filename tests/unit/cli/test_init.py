"""`workorders init`."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from support.command import Command
from workorders.airflow.bundle import WorkOrdersDagBundle


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def test_the_files_that_it_writes_are_right(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "new" / "definitions"
    assert command("init", str(home)).code == 0
    monkeypatch.setattr(sys, "path", [*sys.path, str(home)])
    assert "orders.yaml: trigger orders is valid." in command("triggers", "check", str(home / "triggers")).out
    assert "ship.yaml: workflow ship is valid." in command("workflows", "check", str(home / "workflows")).out
    assert not (home / "dags").exists()


def test_the_line_that_it_prints_configures_the_bundle(command: Command, tmp_path: Path) -> None:
    out = command("init", str(tmp_path)).out
    (line,) = [line for line in out.splitlines() if line.startswith("export ")]
    name, _, value = shlex.split(line)[1].partition("=")
    (bundle,) = json.loads(value)
    assert name == "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
    assert bundle["classpath"] == f"{WorkOrdersDagBundle.__module__}.{WorkOrdersDagBundle.__name__}"
    assert WorkOrdersDagBundle(name=bundle["name"], **bundle["kwargs"]).folder == tmp_path.resolve()


def test_files_that_exist_stay_as_they_are(command: Command, tmp_path: Path) -> None:
    mine = tmp_path / "triggers" / "orders.yaml"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    out = command("init", str(tmp_path)).out
    assert f"exists   {mine.resolve()}" in out
    assert mine.read_text(encoding="utf-8") == "mine"


def test_dag_files_are_written_only_on_request(command: Command, tmp_path: Path) -> None:
    out = command("init", "--dag-files", str(tmp_path)).out
    assert {file.name for file in (tmp_path / "dags").iterdir()} == {
        f"workorders_{name}.py" for name in ("triggers", "workflows", "outbox", "maintenance")
    }
    assert f"{tmp_path.resolve()} to PYTHONPATH" in out


def test_a_folder_that_cannot_be_written_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = command("init", str(tmp_path / "file"))
    assert ended.code == 1
    assert str(tmp_path / "file" / "triggers" / "orders.yaml") in ended.err
