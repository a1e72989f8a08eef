"""The commands that read or write Airflow's database: a real one, in which no component of Airflow has a heartbeat."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

_FILL = """
import os
os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
with create_session(scoped=False) as session:
    session.add(DagBundleModel(name="folder"))
    session.flush()
    for dag_id, is_stale in (("orders_listener", True), ("orders_ingest", True), ("ship_runs", False), ("mine", True)):
        dag = DagModel(
            dag_id=dag_id, bundle_name="folder", is_stale=is_stale, fileloc="/dags/all.py", relative_fileloc="all.py",
            max_active_tasks=16, max_active_runs=16, max_consecutive_failed_dag_runs=0,
            has_task_concurrency_limits=False,
        )
        session.add(dag)
        session.flush()
        if dag_id != "mine":
            session.add(DagTag(name="workorders", dag_id=dag_id))
"""

_EACH = """
import sys
from workorders.cli.main import main
for command in sys.argv[1].split(";"):
    sys.argv = ["workorders", *command.split()]
    try:
        main()
    except SystemExit as end:
        print(f"exit {end.code}", flush=True)
"""
"""Commands in one process: most of a command's time is the import of Airflow."""
_REQUESTED = """
import os
os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.utils.session import create_session
with create_session(scoped=False) as session:
    for request in session.query(DagPriorityParsingRequest):
        print(request.bundle_name, request.relative_fileloc)
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's home, with its folder of Dags."""
    return tmp_path_factory.mktemp("airflow")


@pytest.fixture(scope="module")
def run(home: Path) -> Run:
    """Runs Python with this Airflow."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environment = {**own, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    def run(*command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)

    for command in (("-m", "airflow", "db", "migrate"), ("-c", _FILL)):
        done = run(*command)
        assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="module")
def workorders(run: Run) -> Run:
    """Runs the command line with this Airflow."""
    return lambda *arguments: run("-m", "workorders.cli.main", *arguments)


def test_dags_that_no_file_makes_are_deleted_and_no_other_ones(run: Run) -> None:
    done = run("-c", _EACH, "remove orders --yes;remove orders --yes;remove --yes")
    removed, again, *_ = done.stdout.split("exit ")
    assert removed.startswith("orders_ingest\norders_listener\n")
    assert again == "0\nThere is no Dag to delete.\n"
    assert done.stdout.endswith("exit 1\n")
    assert "Files still make the Dags ship_runs, so none was deleted." in done.stderr


def test_the_doctor_names_every_component_that_does_not_run(workorders: Run) -> None:
    found = workorders("doctor", "--json")
    assert found.returncode == 1, found.stderr
    checks = {check["check"]: check for check in json.loads(found.stdout)}
    for component in ("scheduler", "triggerer", "dag-processor"):
        check = checks[f"Airflow's {component}"]
        assert (check["ok"], check["command"]) == (False, f"airflow {component}")
        assert check["found"].endswith("it does not run, or cannot start without this package")


def test_a_start_waits_for_components_that_have_no_heartbeat_yet_and_names_those_that_have_none(
    workorders: Run,
) -> None:
    ended = workorders("start", "orders", "--wait", "1s")
    assert ended.returncode == 1
    assert "Waiting for a heartbeat of Airflow's components.\n" in ended.stderr
    assert "wrong  Airflow's triggerer: has no recent heartbeat" in ended.stdout


def test_a_folder_in_the_dags_folder_is_read_at_once(run: Run, workorders: Run, home: Path) -> None:
    written = workorders("init", str(home / "dags" / "orders"))
    assert written.stdout.endswith(f"Airflow's Dag processor reads {home / 'dags' / 'orders' / 'dags'} now.\n")
    assert run("-c", _REQUESTED).stdout == "dags-folder orders/dags/workorders_triggers.py\n"
