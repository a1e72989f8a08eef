"""`workorders remove` on Airflow's real database, with Dags as the Dag processor leaves them."""

import os
import subprocess
import sys
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


def test_dags_that_no_file_makes_are_deleted_and_no_other_ones(tmp_path: Path) -> None:
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

    def run(*command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)

    def remove(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return run("-m", "workorders.cli.main", "remove", *arguments, "--yes")

    for command in (("-m", "airflow", "db", "migrate"), ("-c", _FILL)):
        done = run(*command)
        assert done.returncode == 0, done.stderr
    removed = remove("orders")
    assert removed.returncode == 0, removed.stderr
    assert removed.stdout.startswith("orders_ingest\norders_listener\n")
    assert remove("orders").stdout == "There is no Dag to delete.\n"
    refused = remove()
    assert refused.returncode == 1
    assert "Files still make the Dags ship_runs, so none was deleted." in refused.stderr
