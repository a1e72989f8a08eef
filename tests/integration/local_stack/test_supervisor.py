"""The supervisor on its own, with small programs in place of servers."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from local_stack.errors import StackError
from local_stack.processes import ManagedProcess, Processes
from local_stack.waiting import wait_until

pytestmark = pytest.mark.integration

SLEEP = "import time; time.sleep(600)"
# A child in its own session whose parent ends at once: what escapes from killing process groups.
LEAVE_AN_ORPHAN = f"""
import subprocess, sys
orphan = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True)
print(orphan.pid, flush=True)
"""

FORK_ON = """
import os, time
for _ in range(2_000):
    if os.fork() == 0:
        time.sleep(600)
    os.write(1, b".")
time.sleep(600)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def processes(home: Path, tmp_path: Path) -> Iterator[Processes]:
    supervised = Processes(home, tmp_path)
    yield supervised
    supervised.close()


def python(processes: Processes, name: str, program: str) -> ManagedProcess:
    return ManagedProcess(processes, name, [sys.executable, "-c", program], {})


def is_there(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def orphan_of(processes: Processes) -> psutil.Process:
    parent = python(processes, "parent", LEAVE_AN_ORPHAN)
    parent.finish(seconds=30, what="The parent")
    return psutil.Process(int(parent.log.read_text()))


def test_an_orphan_in_a_session_of_its_own_is_stopped_too(processes: Processes) -> None:
    orphan = orphan_of(processes)
    assert orphan.is_running()
    processes.close()
    assert not orphan.is_running()


def test_an_orphan_is_stopped_when_the_supervisors_owner_is_killed(tmp_path: Path, home: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from local_stack.processes import ManagedProcess, Processes
processes = Processes(Path({str(home)!r}), Path({str(tmp_path)!r}))
parent = ManagedProcess(processes, "parent", [sys.executable, "-c", {LEAVE_AN_ORPHAN!r}], {{}})
parent.finish(seconds=30, what="The parent")
print(parent.log.read_text(), flush=True)
time.sleep(600)
"""
    path = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=path)
    assert owner.stdout is not None
    orphan = psutil.Process(int(owner.stdout.readline()))
    owner.kill()
    owner.wait()
    assert wait_until(lambda: not orphan.is_running() and not home.exists(), seconds=30)


@pytest.mark.parametrize("descendants", [True, False])
def test_killing_a_process_kills_its_descendants_unless_it_is_killed_alone(
    processes: Processes, *, descendants: bool
) -> None:
    parent = python(processes, "parent", LEAVE_AN_ORPHAN + SLEEP)
    parent.start()
    assert wait_until(lambda: parent.log.read_text().endswith("\n"), seconds=30)
    child = psutil.Process(int(parent.log.read_text()))
    parent.kill(descendants=descendants)
    assert parent.exit_code == -signal.SIGKILL
    assert is_there(child) is not descendants


def test_a_process_is_killed_when_all_that_its_descendants_held_is_free(processes: Processes) -> None:
    """As Postgres' sessions hold its shared memory until the disk has answered them; here it is memory to give back."""
    child = "held = bytearray(b'x') * (1 << 30); print('held', flush=True); import time; time.sleep(600)"
    parent = python(processes, "parent", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])")
    parent.start()
    assert wait_until(lambda: parent.log.read_text() == "held\n", seconds=60)
    [holder] = psutil.Process(parent.pid).children()
    parent.kill()
    assert not is_there(holder)


def test_what_a_process_forks_while_it_is_killed_is_killed_too(processes: Processes) -> None:
    parent = python(processes, "parent", FORK_ON)
    parent.start()
    assert wait_until(lambda: len(parent.log.read_text()) > 100, seconds=30)
    parent.kill()
    assert not [left for left in psutil.Process(processes.pid).children(recursive=True) if is_there(left)]


def test_a_process_that_ignores_the_request_to_end_is_killed(processes: Processes) -> None:
    stubborn = python(
        processes, "stubborn", f"import signal; signal.signal(15, signal.SIG_IGN); print('on', flush=True); {SLEEP}"
    )
    stubborn.start()
    assert wait_until(lambda: stubborn.log.read_text() == "on\n", seconds=30)
    stubborn.stop(seconds=0.3)
    assert stubborn.exit_code == -signal.SIGKILL


def test_a_process_is_ended_by_sigterm_and_does_not_inherit_that_it_is_ignored(processes: Processes) -> None:
    polite = python(processes, "polite", SLEEP)
    polite.start()
    polite.stop()
    assert polite.exit_code == -signal.SIGTERM


def test_its_processes_die_with_a_supervisor_that_is_killed(processes: Processes) -> None:
    sleeper = python(processes, "sleeper", SLEEP)
    sleeper.start()
    process = psutil.Process(sleeper.pid)
    psutil.Process(processes.pid).kill()
    assert wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, seconds=30)
    with pytest.raises(StackError, match="supervisor is gone"):
        _ = sleeper.running


def test_a_process_that_fails_is_reported_with_the_end_of_its_log(processes: Processes) -> None:
    failing = python(processes, "failing", "raise SystemExit('it went wrong')")
    with pytest.raises(StackError, match=r"(?s)The attempt failed; its log is .*it went wrong"):
        failing.finish(seconds=30, what="The attempt")
