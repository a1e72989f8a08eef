"""A task's process reads the file of its Dag, and gets the Dag that the Dag processor has."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from workorders.airflow.dags import factories
from workorders.airflow.dags.factories import trigger_dags
from workorders.airflow.dags.workflows import workflow_dags
from workorders.core.definitions import loading

KAFKA = "name: {name}\ntype: kafka\nworkflow: {workflow}\ntopics: [{name}]\n"
MANUAL = "name: {name}\ntype: manual\nworkflow: ship\n"
MANY = 1000


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are parsed."""
    names: list[str] = []
    read = loading.read_mapping

    def noted(path: Path, **more: Any) -> Any:
        names.append(path.name)
        return read(path, **more)

    monkeypatch.setattr(loading, "read_mapping", noted)
    return names


def in_the_process_of(dag_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Continue as the process of a task of this Dag does."""
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def content(dag: DAG) -> str:
    """Return what Airflow stores of a Dag."""
    return json.dumps(DagSerialization.to_dict(dag), sort_keys=True)


def test_of_a_thousand_trigger_files_one_is_parsed_and_that_of_its_workflow(
    tmp_path: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, workflows = tmp_path / "triggers", tmp_path / "workflows"
    files.mkdir()
    workflows.mkdir()
    write(files, {f"file_{n}.yaml": KAFKA.format(name=f"kafka_{n}", workflow=f"w_{n}") for n in range(MANY)})
    write(workflows, {f"w{n}.yaml": f"name: w_{n}\ncallable: a.module:f\n" for n in range(MANY)})
    in_the_process_of("kafka_700_listener", monkeypatch)
    assert set(trigger_dags(files, modules=["no_such_module"])) == {"kafka_700_listener"}
    assert parsed == ["file_700.yaml", "w700.yaml"]


def test_of_a_thousand_workflow_files_one_is_parsed(
    tmp_path: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {f"w{n}.yaml": f"name: w_{n}\ncallable: a.module:f\n" for n in range(MANY)})
    in_the_process_of("w_700_runs", monkeypatch)
    assert set(workflow_dags(tmp_path)) == {"w_700_runs"}
    assert parsed == ["w700.yaml"]


ODD = {
    "a_orders.yaml": KAFKA.format(name="orders", workflow="ship"),
    "births.yaml": KAFKA.format(name="births", workflow="orders"),
    "escaped.yaml": 'name: "esc\\x61ped"\ntype: manual\nworkflow: ship\n',
    "flow.yaml": "{name: 'in-flow', type: manual, workflow: ship}\n",
    "aliased.yaml": "description: &n aliased\nname: *n\ntype: manual\nworkflow: ship\n",
    "folded.yaml": 'name: "fol\\\n  ded"\ntype: manual\nworkflow: ship\n',
    "orders.yaml": KAFKA.format(name="orders", workflow="bill"),
    "orders_listener.yaml": KAFKA.format(name="orders_listener", workflow="ship"),
    "mistaken.yaml": "name: births\ntype: kafka\n",
    "z.yml": MANUAL.format(name="births_ingest"),
}
"""File `orders.yaml` is refused because a file before it has the name, and `mistaken.yaml` for a missing field."""


def test_each_task_gets_the_dag_that_the_dag_processor_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ODD)
    (tmp_path / "lost.yaml").symlink_to("/nowhere")
    every = {dag_id: content(dag) for dag_id, dag in trigger_dags(tmp_path).items()}
    assert {
        "orders_refused",
        "mistaken_refused",
        "lost_refused",
        "escaped_manual",
        "folded_manual",
        "in-flow_manual",
    } < set(every)
    for dag_id, expected in every.items():
        in_the_process_of(dag_id, monkeypatch)
        assert {name: content(dag) for name, dag in trigger_dags(tmp_path).items()} == {dag_id: expected}


def test_a_dag_that_is_not_named_after_its_trigger_is_found_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ODD)
    monkeypatch.setattr(factories, "make_dags", lambda definition: [DAG(f"of-{definition.name}")])
    in_the_process_of("of-births", monkeypatch)
    assert "of-births" in trigger_dags(tmp_path)


def test_a_dag_of_no_file_here_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ODD)
    every = set(trigger_dags(tmp_path))
    in_the_process_of("another_dag", monkeypatch)
    assert set(trigger_dags(tmp_path)) == every


def test_a_module_is_imported_only_for_a_workflow_that_no_file_defines(
    tmp_path: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from workorders import workflow\n\n\n@workflow(name='{name}')\ndef f(body, context):\n    return body\n"
    write(tmp_path, {"asked_module.py": code.format(name="discharge"), "same_module.py": code.format(name="admit")})
    monkeypatch.syspath_prepend(tmp_path)
    files = tmp_path / "files"
    files.mkdir()
    write(files, {f"{name}.yaml": f"name: {name}\ncallable: a.module:f\n" for name in ("admit", "visit")})
    in_the_process_of("admit_runs", monkeypatch)
    assert yaml.safe_load((files / "admit.yaml").read_text())["callable"] in content(
        workflow_dags(files, ["same_module"])["admit_runs"]
    )
    in_the_process_of("visit_runs", monkeypatch)
    assert set(workflow_dags(files, ["no_such_module"])) == {"visit_runs"}
    parsed.clear()
    in_the_process_of("discharge_runs", monkeypatch)
    assert set(workflow_dags(files, ["asked_module"])) == {"discharge_runs"}
    assert parsed == []
