"""The local stack itself: its isolation, and what it leaves behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from local_stack.broker import cluster_id_of
from local_stack.errors import StackError
from local_stack.stack import LocalStack

pytestmark = pytest.mark.integration

ALIVE_SECONDS = 60
UNLUCKY = uuid.UUID(bytes=b"\xf8" + bytes(15))

# Tests that a script runs in the background ignore SIGINT, and what they start as well.
HOLD_A_STACK = """
import signal
import time
signal.signal(signal.SIGINT, signal.default_int_handler)
from local_stack.stack import LocalStack
with LocalStack() as stack:
    print(stack.home, stack.supervisor_pid, flush=True)
    time.sleep(600)
"""


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def connections(process: psutil.Process) -> list[Any]:
    """A process's connections; none of one that has just ended, as Postgres' helpers do all the time."""
    with suppress(psutil.NoSuchProcess):
        return list(process.net_connections(kind="inet"))
    return []


def command_line(process: psutil.Process) -> list[str]:
    """A process's arguments; none of one that has just ended."""
    with suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def program_of(process: psutil.Process) -> str:
    """The name of what a process runs; empty for one that has just ended."""
    with suppress(psutil.NoSuchProcess):
        return process.name()
    return ""


def memory_map(process: psutil.Process) -> str:
    """What a process has mapped; nothing of one that has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process.pid}/maps").read_text()
    return ""


def shared_memory_of(processes: list[psutil.Process]) -> set[str]:
    """What these processes have mapped that would outlive them: System V segments by id, POSIX ones by file."""
    found = set()
    for process in processes:
        # address, permissions, offset, device, inode (a System V segment's id), path
        for line in memory_map(process).splitlines():
            inode, path = [*line.split(maxsplit=5), ""][4:6]
            if path.startswith("/SYSV"):
                found.add(inode)
            if path.startswith("/dev/shm/"):
                found.add(path)
    return found


def still_there(segments: set[str]) -> set[str]:
    ids = {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}
    return {segment for segment in segments if segment in ids or Path(segment).exists()}


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """A program that has started a stack; what it printed last is home and supervisor."""
    program = subprocess.Popen(
        [sys.executable, "-c", HOLD_A_STACK], stdout=subprocess.PIPE, text=True, env=environment()
    )
    yield program
    program.kill()
    program.wait()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def read_what_it_holds(holder: subprocess.Popen[str]) -> tuple[Path, int]:
    assert holder.stdout is not None
    line = next(line for line in holder.stdout if line.startswith("/"))
    home, supervisor = line.split()
    return Path(home), int(supervisor)


def test_its_role_is_no_superuser_and_needs_its_password(stack: LocalStack) -> None:
    with psycopg.connect(stack.database_url) as connection:
        assert connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(stack.database_url, password="guessed")


def test_postgres_is_as_durable_as_a_real_one(stack: LocalStack) -> None:
    with psycopg.connect(stack.database_url) as connection:
        settings = [
            connection.execute(f"SHOW {name}").fetchone()
            for name in ("fsync", "synchronous_commit", "full_page_writes")
        ]
    assert settings == [("on",), ("on",), ("on",)]


def test_listens_on_the_loopback_interface_only(stack: LocalStack) -> None:
    listening = [
        connection.laddr
        for process in family(stack.supervisor_pid)
        for connection in connections(process)
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 3, "Postgres, the broker and its controller"
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


def test_no_password_is_an_argument(stack: LocalStack) -> None:
    password = stack.database_url.split(":")[2].split("@")[0]
    arguments = [word for process in family(stack.supervisor_pid) for word in command_line(process)]
    assert not [word for word in arguments if password in word]


def files_for_others(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder that a user who may enter it and is not their owner can read."""
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # a process has removed it
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
                yield from files_for_others(path)
            elif stat.S_ISREG(mode) and mode & stat.S_IROTH:
                yield path


def test_no_file_of_a_stack_can_be_read_by_others(stack: LocalStack) -> None:
    """Data and passwords are in its home, and the password of Airflow's first user is in a log."""
    folders = [folder for folder in (stack.home, stack.logs) if folder.stat().st_mode & stat.S_IXOTH]
    found = [file for folder in folders for file in files_for_others(folder)]
    assert [file for file in found if ".so" not in file.name] == []  # libraries that Java unpacks


@pytest.fixture(scope="module")
def unlucky() -> Iterator[LocalStack]:
    """A stack of these tests alone, whose cluster id looks like an option."""
    stack = LocalStack(name=f"unlucky-{os.getpid()}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("local_stack.broker.uuid.uuid4", lambda: UNLUCKY)
        stack.__enter__()
    yield stack
    stack.stop()


def test_kafka_starts_with_a_cluster_id_that_looks_like_an_option(unlucky: LocalStack) -> None:
    assert cluster_id_of(UNLUCKY).startswith("-")
    assert AdminClient(unlucky.kafka_settings).list_topics(timeout=10).cluster_id == cluster_id_of(UNLUCKY)


def test_no_shared_memory_is_left_when_postgres_was_killed_and_never_came_back(unlucky: LocalStack) -> None:
    segments = shared_memory_of(family(unlucky.supervisor_pid))
    unlucky.postgres.kill()
    assert still_there(segments) == segments, "a killed Postgres leaves them"
    unlucky.stop()
    assert still_there(segments) == set()


def test_a_part_that_cannot_start_is_named_with_its_log_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_stack.broker._JVM_OPTIONS", ("-XX:NoSuchOption",))
    stack = LocalStack(name=f"broken-{os.getpid()}")
    with pytest.raises(
        StackError, match=r"(?s)Formatting the Kafka broker's storage failed; its log is .*NoSuchOption"
    ):
        stack.__enter__()
    assert not stack.home.exists()
    assert (stack.logs / "kafka-format.log").exists(), "the log is kept"
    shutil.rmtree(stack.logs)
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(stack.database_url)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_its_owner_is_ended_by(number: signal.Signals, holder: subprocess.Popen[str]) -> None:
    home, supervisor = read_what_it_holds(holder)
    processes = family(supervisor)
    segments = shared_memory_of(processes)
    assert segments, "Postgres always has one"
    assert {"postgres", "java"} <= {program_of(process) for process in processes}
    holder.send_signal(number)
    _, alive = psutil.wait_procs(processes, timeout=ALIVE_SECONDS)
    assert alive == []
    assert not home.exists()
    assert still_there(segments) == set()
