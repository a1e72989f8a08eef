"""Airflow as a part of the local stack."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from local_stack.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.long]

DAG_SECONDS = 120
GONE_SECONDS = 60

# The task's program runs in its own session, as one that wants to escape would.
A_DAG = """
import os, subprocess
from pathlib import Path
from airflow.sdk import dag, task

@dag(schedule="@once")
def holds_a_program():
    @task
    def hold():
        program = subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(os.environ["PID_FILE"]).write_text(f"{program.pid}\\n")
        program.wait()
    hold()

holds_a_program()
"""

HOLD_AN_AIRFLOW = """
import sys, time
from pathlib import Path
from local_stack.stack import LocalStack
folder = Path(sys.argv[1])
with LocalStack(airflow=True, dags_folder=folder / "dags", environment={"PID_FILE": str(folder / "pid")}) as stack:
    print(stack.home, stack.supervisor_pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "holds_a_program.py").write_text(A_DAG)
    return tmp_path


@pytest.fixture
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that has started a stack with Airflow; what it printed last is home and supervisor."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", HOLD_AN_AIRFLOW, str(folder)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    yield program
    program.kill()
    program.wait()


def test_its_executors_workers_and_the_programs_of_their_tasks_end_with_its_owner(
    holder: subprocess.Popen[str], folder: Path
) -> None:
    assert holder.stdout is not None
    line = next(line for line in holder.stdout if line.startswith("/"))
    home, supervisor = line.split()
    pid_file = folder / "pid"
    assert wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"), seconds=DAG_SECONDS)
    program = psutil.Process(int(pid_file.read_text()))
    processes = [psutil.Process(int(supervisor)), *psutil.Process(int(supervisor)).children(recursive=True)]
    assert program in processes
    holder.kill()
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    assert alive == []
    assert not Path(home).exists()
