"""`workorders init`."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import workorders
from local_stack.stack import CHECKOUT
from support.command import Command, Ended

BUNDLES = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
LOCAL = "airflow.dag_processing.bundles.local.LocalDagBundle"
PACKAGE = Path(workorders.__file__).parents[1]
LOAD = """
import json, sys
from pathlib import Path
from airflow.dag_processing.dagbag import BundleDagBag
bag = BundleDagBag(sys.argv[1], bundle_path=Path(sys.argv[1]), bundle_name="mine")
files = sorted({Path(stat.file).name for stat in bag.dagbag_stats})
print(json.dumps({"dags": sorted(bag.dags), "files": files, "errors": bag.import_errors}))
"""
"""What Airflow's Dag processor makes of a folder."""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command in a shell in which Airflow is not configured."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    return Command(monkeypatch, capsys)


def configure(monkeypatch: pytest.MonkeyPatch, bundles: Sequence[dict[str, Any]]) -> None:
    monkeypatch.setenv(BUNDLES, json.dumps(bundles))


def printed_bundles(ended: Ended) -> list[dict[str, Any]]:
    """The list in the line that is printed, as a shell reads it."""
    assert ended.code == 0, ended.err
    (line,) = [line for line in ended.out.splitlines() if line.startswith("export ")]
    name, _, value = shlex.split(line)[1].partition("=")
    assert name == BUNDLES
    return list(json.loads(value))


def run(*program: str | Path, home: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a program that finds the package, and nothing of the folder."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("WORKORDERS_", "AIRFLOW"))}
    variables = {**own, "PYTHONPATH": str(PACKAGE), "AIRFLOW_HOME": str(home)}
    return subprocess.run(program, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_the_trigger_that_it_writes_is_right_and_begins_with_what_arrives_from_now_on(
    command: Command, tmp_path: Path
) -> None:
    home = tmp_path / "new" / "definitions"
    assert command("init", str(home)).code == 0
    assert "orders.yaml: trigger orders is valid." in command("triggers", "check", str(home / "triggers")).out
    assert "starting_offsets: latest" in (home / "triggers" / "orders.yaml").read_text(encoding="utf-8")


def test_the_test_that_it_writes_passes_without_any_service(command: Command, tmp_path: Path) -> None:
    command("init", str(tmp_path / "definitions"))
    ended = run(sys.executable, "-m", "pytest", "-q", "definitions", home=tmp_path / "airflow", folder=tmp_path)
    assert "1 passed" in ended.stdout, ended.stdout


def test_airflow_loads_what_it_writes_into_the_dags_folder_beside_the_dags_that_are_there(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dags"
    configure(monkeypatch, [{"name": "mine", "classpath": LOCAL, "kwargs": {"path": str(folder)}}])
    # Airflow has no database here, in which its Dag processor could be asked to read them now.
    assert f"Airflow finds {folder / 'orders' / 'dags'} without" in command("init", str(folder / "orders")).out
    (folder / "mine.py").write_text(
        "from airflow.sdk import DAG\n\nmine = DAG('mine', schedule=None)\n", encoding="utf-8"
    )
    ended = run(sys.executable, "-c", LOAD, str(folder), home=tmp_path / "airflow", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    loaded = json.loads(ended.stdout.splitlines()[-1])
    assert loaded["errors"] == {}
    assert {"mine", "orders_listener", "orders_ingest", "ship_runs"} <= set(loaded["dags"])
    # Airflow executes no other file of the folder, such as the test of the function.
    written = {path.name for path in (folder / "orders" / "dags").glob("*.py")}
    assert set(loaded["files"]) == {"mine.py", *written}


def test_the_setting_that_it_prints_makes_the_dags_of_the_folder_and_keeps_airflows_default_bundle(
    command: Command, tmp_path: Path
) -> None:
    kept, added = printed_bundles(command("init", str(tmp_path / "definitions")))
    assert kept == {"name": "dags-folder", "classpath": LOCAL, "kwargs": {}}
    path = (tmp_path / "definitions" / "dags").resolve()
    assert added == {"name": "workorders", "classpath": LOCAL, "kwargs": {"path": str(path)}}


def test_the_setting_keeps_every_bundle_that_airflow_has(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine: list[dict[str, Any]] = [
        {"name": "git", "classpath": "airflow.providers.git.bundles.git.GitDagBundle", "kwargs": {"subdir": "it's"}},
        {"name": "workorders", "classpath": LOCAL, "kwargs": {"path": "/elsewhere"}},
        {"name": "files", "classpath": LOCAL, "kwargs": None},
    ]
    configure(monkeypatch, mine)
    *kept, added = printed_bundles(command("init", str(tmp_path / "definitions")))
    assert kept == mine
    assert added["name"] not in {bundle["name"] for bundle in mine}


def test_a_folder_that_has_its_bundle_gets_no_second_one(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = printed_bundles(command("init", str(tmp_path / "definitions")))
    configure(monkeypatch, first)
    assert "export" not in command("init", str(tmp_path / "definitions")).out


@pytest.mark.parametrize("setting", ["{", "{}", '["dags-folder"]'])
def test_a_setting_that_is_no_list_of_bundles_is_an_error_before_a_file_is_written(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(BUNDLES, setting)
    ended = command("init", str(tmp_path / "definitions"))
    assert (ended.code, (tmp_path / "definitions").exists()) == (1, False)
    assert "dag_bundle_config_list" in ended.err


def test_a_folder_with_triggers_gets_only_what_a_new_version_replaces(command: Command, tmp_path: Path) -> None:
    mine = tmp_path / "triggers" / "mine.yaml"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    old = tmp_path / "dags" / "workorders_triggers.py"
    old.parent.mkdir()
    old.write_text("old", encoding="utf-8")
    assert command("init", str(tmp_path)).code == 0
    assert mine.read_text(encoding="utf-8") == "mine"
    assert old.read_text(encoding="utf-8") != "old"
    assert {path.name for path in tmp_path.iterdir()} == {"triggers", "dags", "schema"}


def test_a_file_of_yours_stays_as_it_is(command: Command, tmp_path: Path) -> None:
    mine = tmp_path / "shipping.py"
    mine.write_text("mine", encoding="utf-8")
    assert f"exists   {mine.resolve()}" in command("init", str(tmp_path)).out
    assert mine.read_text(encoding="utf-8") == "mine"


def test_the_schemas_are_the_published_ones_and_the_trigger_names_its_own(command: Command, tmp_path: Path) -> None:
    command("init", str(tmp_path))
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "schema").iterdir()}
    assert written == {path.name: path.read_text(encoding="utf-8") for path in (CHECKOUT / "docs" / "schema").iterdir()}
    first, _ = (tmp_path / "triggers" / "orders.yaml").read_text(encoding="utf-8").split("\n", 1)
    assert (tmp_path / "triggers" / first.partition("$schema=")[2]).is_file()


def test_a_folder_that_cannot_be_written_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = command("init", str(tmp_path / "file"))
    assert ended.code == 1
    assert str(tmp_path / "file" / "triggers" / "orders.yaml") in ended.err
