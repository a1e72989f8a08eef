"""`make demo`, `make up` and `make down`, as a person types them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from local_stack.stack import CHECKOUT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

SECONDS = 1500


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A separate checkout, so that a stack which a person keeps next to the tests is left alone."""
    for folder in ("include", "dags", "spark_apps"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(checkout: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(checkout / "include")}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(
        command, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )


def processes_of(checkout: Path) -> list[psutil.Process]:
    """The processes that were started from a checkout, wherever they have gone."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PYTHONPATH", "").startswith(str(checkout)):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.long
def test_the_demo_is_right_in_every_figure_and_leaves_nothing(checkout: Path) -> None:
    done = run(checkout, "demo", "--messages", "2000", "--seconds", "3", "--single", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert processes_of(checkout) == []
    assert not list((checkout / "build").rglob("*.log"))


def test_a_stack_stays_until_it_is_taken_down_and_shells_find_it(checkout: Path) -> None:
    environment = checkout / "build" / "stack" / "environment.sh"
    try:
        up = run(checkout, "local_stack", "up", "--detach")
        assert up.returncode == 0, up.stdout + up.stderr
        assert "Airflow: http://127.0.0.1:" in up.stdout
        status = subprocess.run(
            ["bash", "-c", f". {environment} && workorders status"], capture_output=True, text=True, check=False
        )
        assert status.returncode == 0, status.stderr
        again = run(checkout, "local_stack", "up", "--detach")
        assert (again.returncode, "is running already" in again.stderr) == (1, True)
    finally:
        down = run(checkout, "local_stack", "down")
    assert down.returncode == 0, down.stderr
    assert not environment.exists()
    assert processes_of(checkout) == []
