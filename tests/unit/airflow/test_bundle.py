"""The Dag bundle of a folder of definitions, and its Dag files."""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk import DAG

from workorders.airflow.bundle import WorkOrdersDagBundle
from workorders.airflow.dag_files import dag_files
from workorders.core.exceptions import ConfigurationError

TRIGGER = "name: orders\ntype: kafka\nworkflow: ship\ntopics: [orders]\n"
WORKFLOW = "name: ship\ncallable: shipping_of_bundle:ship\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "it's a folder"
    for name, text in {"triggers/orders.yaml": TRIGGER, "workflows/ship.yaml": WORKFLOW}.items():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(text, encoding="utf-8")
    (home / "shipping_of_bundle.py").write_text("def ship(order, context):\n    return {}\n", encoding="utf-8")
    return home


@pytest.fixture
def bundle(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkOrdersDagBundle]:
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH", str(tmp_path / "storage"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield WorkOrdersDagBundle(name="workorders", folder=str(folder))
    for name in ("shipping_of_bundle", "billing_of_bundle"):
        sys.modules.pop(name, None)


def dags_of(file: Path) -> set[str]:
    return {name for name, value in runpy.run_path(str(file)).items() if isinstance(value, DAG)}


def test_the_bundle_makes_the_dags_of_the_folder(bundle: WorkOrdersDagBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKORDERS_TRIGGERS", "/elsewhere")
    monkeypatch.setenv("WORKORDERS_WORKFLOWS", "/elsewhere")
    bundle.initialize()
    found = {file.name: dags_of(file) for file in sorted(bundle.path.iterdir())}
    assert found["workorders_triggers.py"] == {"orders_listener", "orders_ingest"}
    assert found["workorders_workflows.py"] == {"ship_runs"}
    assert found["workorders_outbox.py"] == {"workorders_outbox_0"}
    assert found["workorders_maintenance.py"] == {"workorders_maintenance"}
    assert len(found) == 4


def test_airflow_takes_each_file_for_a_dag_file() -> None:
    for name, text in dag_files("Path('/folder')").items():
        assert name.endswith(".py")
        assert {"airflow", "dag"} <= set(text.lower().replace(".", " ").replace("_", " ").split())


def test_the_path_is_known_before_the_bundle_is_initialized(bundle: WorkOrdersDagBundle) -> None:
    before = bundle.path
    bundle.initialize()
    assert bundle.path == before
    assert before.is_dir()


def test_a_second_task_does_not_write_the_files_again(bundle: WorkOrdersDagBundle) -> None:
    bundle.initialize()
    before = {file: file.stat().st_mtime_ns for file in bundle.path.iterdir()}
    bundle.initialize()
    assert {file: file.stat().st_mtime_ns for file in bundle.path.iterdir()} == before


def test_a_bundle_with_another_folder_replaces_the_files(bundle: WorkOrdersDagBundle, tmp_path: Path) -> None:
    bundle.initialize()
    WorkOrdersDagBundle(name="workorders", folder=str(tmp_path), workflow_modules=["shop.orders"]).initialize()
    text = (bundle.path / "workorders_workflows.py").read_text(encoding="utf-8")
    assert str(tmp_path / "workflows") not in text  # the folder alone is named
    assert repr(str(tmp_path)) in text
    assert "['shop.orders']" in text


def test_a_task_can_import_the_modules_of_the_folder(bundle: WorkOrdersDagBundle, folder: Path) -> None:
    bundle.initialize()
    for _ in range(2):
        dags_of(bundle.path / "workorders_workflows.py")
    assert sys.path.count(str(folder)) == 1
    assert __import__("shipping_of_bundle").ship({}, None) == {}


def test_airflow_runs_no_dag_file_that_others_have_written(
    bundle: WorkOrdersDagBundle, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle.path.mkdir(parents=True)
    bundle.path.chmod(0o777)
    with pytest.raises(ConfigurationError, match="not this user's alone"):
        bundle.initialize()
    bundle.path.chmod(0o755)
    (bundle.path / "workorders_of_before.py").write_text("", encoding="utf-8")
    bundle.initialize()
    assert bundle.path.stat().st_mode & 0o777 == 0o700
    assert {file.name for file in bundle.path.iterdir()} == set(dag_files(""))
    monkeypatch.delenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    assert WorkOrdersDagBundle(name="mine", folder=str(folder)).path.is_relative_to(tmp_path / "home")


@pytest.mark.parametrize("decorator", ["@workflow", "@workflow(ordering_key='key')", "@workorders.workflow"])
def test_a_decorated_function_in_the_folder_is_a_workflow_without_being_named(
    bundle: WorkOrdersDagBundle, folder: Path, decorator: str
) -> None:
    (folder / "billing_of_bundle.py").write_text(
        f"import workorders\nfrom workorders import workflow\n\n\n{decorator}\ndef bill(order, context):\n    pass\n",
        encoding="utf-8",
    )
    (folder / "test_billing.py").write_text("from billing_of_bundle import bill\n\nraise SystemExit\n", "utf-8")
    bundle.initialize()
    assert dags_of(bundle.path / "workorders_workflows.py") == {"ship_runs", "bill_runs"}


def test_a_folder_with_decorated_functions_needs_no_workflow_files(bundle: WorkOrdersDagBundle, folder: Path) -> None:
    (folder / "workflows" / "ship.yaml").unlink()
    (folder / "workflows").rmdir()
    text = "from workorders import workflow\n\n\n@workflow\ndef bill(order, context):\n    pass\n"
    (folder / "billing_of_bundle.py").write_text(text, encoding="utf-8")
    bundle.initialize()
    assert dags_of(bundle.path / "workorders_workflows.py") == {"bill_runs"}
