"""The commands on workflows and runs against real data: what they print, and how they end."""

from pathlib import Path
from uuid import uuid4

import pytest

from support.command import Command
from support.working import Working
from workorders.core import triggers, workflows
from workorders.core.postgres.connection import Connection

pytestmark = pytest.mark.integration


def workflow_file(folder: Path, name: str, more: str = "") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(f"name: {name}\ncallable: some.module:function\n{more}", encoding="utf-8")
    return file


def test_workflow_files_are_registered_and_listed(
    workorders: Command, connection: Connection, name: str, tmp_path: Path
) -> None:
    workflow_file(tmp_path, name, "concurrency: 2\nordering_key: key\n")
    ended = workorders("workflows", "apply", str(tmp_path))
    assert (ended.code, ended.out) == (0, f"{name}.yaml: workflow {name} is registered.\n")
    assert workflows.find(connection, name).concurrency == 2
    (line,) = [line for line in workorders("workflows", "list").out.splitlines() if line.startswith(name)]
    assert line.split() == [name, "yes", "some.module:function", "2", "key"]
    (found,) = [row for row in workorders("workflows", "list", "--json").json() if row["name"] == name]
    assert found["definition"]["ordering_key"] == "key"


def test_one_wrong_file_keeps_all_from_being_registered(
    workorders: Command, connection: Connection, name: str, tmp_path: Path
) -> None:
    workflow_file(tmp_path, name)
    workflow_file(tmp_path, f"{name}-wrong", "concurrency: none at all\n")
    ended = workorders("workflows", "apply", str(tmp_path))
    assert ended.code == 1
    assert f"{name}-wrong.yaml, line 3: concurrency: expected a whole number" in ended.err
    assert ended.out == f"{name}.yaml: workflow {name} is valid, and was not registered.\n"
    assert name not in {workflow.name for workflow in workflows.find_all(connection)}


def test_modules_of_the_environment_are_registered_too(
    workorders: Command, connection: Connection, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKORDERS_WORKFLOW_MODULES", "support.decorated_workflows")
    assert workorders("workflows", "apply", str(workflow_file(tmp_path, name))).code == 0
    assert workflows.find(connection, "first_steps").definition is not None


def test_a_workflow_that_only_a_trigger_has_named_is_listed_without_anything_to_run(
    workorders: Command, connection: Connection, name: str
) -> None:
    triggers.register(connection, name=name, type_="test", workflow=name, definition={})
    connection.commit()
    assert name in workorders("workflows", "list").out.split()
    (found,) = [row for row in workorders("workflows", "list", "--json").json() if row["name"] == name]
    assert found["definition"] is None


def test_runs_are_listed_newest_first_with_their_errors(workorders: Command, connection: Connection, name: str) -> None:
    at = Working.on(connection, name)
    at.create_some(3)
    group = at.claim_as_worker()
    group.start()
    group.finish("success", "failed", error_type="ValueError", error="no such ward\nand more")
    found = workorders("runs", "list", "--workflow", name, "--json").json()
    assert [run["state"] for run in found] == ["started", "failed", "success"]
    (line,) = workorders("runs", "list", "--workflow", name, "--state", "failed").out.splitlines()[1:]
    assert line.endswith("ValueError  no such ward and more")
    page = workorders("runs", "list", "--workflow", name, "--limit", "2").out.splitlines()
    rest = workorders("runs", "list", "--workflow", name, "--before", page[-1].split()[-1], "--json").json()
    assert [run["id"] for run in rest] == [found[2]["id"]]


def test_a_run_is_shown_with_its_output_and_its_log(workorders: Command, connection: Connection, name: str) -> None:
    at = Working.on(connection, name)
    at.create_some(1)
    group = at.claim_as_worker()
    group.finish("success", output=b'{"ward": "icu"}', log="seen\x1b[31m", log_truncated=True)
    ended = workorders("runs", "show", str(group.run_ids[0]))
    assert ended.code == 0
    assert ["workflow", name] in [line.split() for line in ended.out.splitlines()]
    for part in ('"ward": "icu"', "log            seen\\u001b[31m"):
        assert part in ended.out
    assert workorders("runs", "show", str(group.run_ids[0]), "--json").json()["log_truncated"] is True


def test_an_unknown_run_or_workflow_or_state_is_an_error(workorders: Command) -> None:
    ended = workorders("runs", "show", str(uuid4()))
    assert (ended.code, ended.out) == (1, "")
    assert "There is no run" in ended.err
    assert "No workflow nonsense is registered" in workorders("runs", "list", "--workflow", "nonsense").err
    ended = workorders("runs", "list", "--state", "done")
    assert ended.code == 2
    assert "is not one of 'available', 'claimed'" in ended.err
