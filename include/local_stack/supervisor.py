"""The process that owns the processes of one stack, and outlives the process that started the stack.

Run as ``python -m local_stack.supervisor HOME``. It reads one JSON command a line from standard input and answers each
with one JSON line; both carry the number of the ``call``. When its input ends, or its parent is gone (however that
happened, SIGKILL included), it stops every process it started and all their descendants, removes what they left in the
kernel and the stack's home folder, and exits. Commands:

``{"do": "start", "name", "command", "environment", "log", "farewell", "user"}`` -> ``{"pid"}``
``{"do": "signal", "name", "number"}`` -> ``{}``
``{"do": "kill", "name", "seconds"}`` -> ``{}``, once neither the process nor any of its descendants is left
``{"do": "status", "name"}`` -> ``{"pid", "exit_code"}`` (``exit_code`` is null while it runs)

It is Linux's child subreaper: a process whose own parent died (an executor's worker, a task in its own session, a
JVM that such a task had started) becomes its child, so that nothing escapes by being orphaned. It runs one thread only,
which makes it safe to run code between fork and exec (see ``_die_with_supervisor``).
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from local_stack.killing import kill_family, send

_IS_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IPC_RMID = 0
_PARENT_CHECK_SECONDS = 1.0
_FAREWELL_SECONDS = 10.0
_POLL_SECONDS = 0.02
_READ_BYTES = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """The processes of one stack, by name."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        # A Popen that is dropped makes subprocess collect its child, and the exit code would be lost to _reap.
        self._kept: list[subprocess.Popen[bytes]] = []
        self._farewells: dict[int, int] = {}
        self._exit_codes: dict[int, int] = {}
        self._starting = False

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out one command and return the answer."""
        try:
            match command["do"]:
                case "start":
                    return self._start(command)
                case "signal":
                    return self._signal(command)
                case "kill":
                    return self._kill(command)
                case "status":
                    return self._status(command["name"])
                case unknown:
                    return {"error": f"There is no command {unknown!r}."}
        except OSError as error:
            return {"error": str(error)}

    def reap(self, *_: int | FrameType | None) -> None:
        """Collect the exit codes of processes that ended, orphans included."""
        if self._starting:
            return
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._exit_codes[pid] = os.waitstatus_to_exitcode(status)

    def stop_all(self) -> None:
        """Stop every process and descendant, after a few seconds by SIGKILL, and leave nothing of them."""
        deadline = time.monotonic() + _FAREWELL_SECONDS
        for pid, number in self._farewells.items():
            if pid not in self._exit_codes:
                send(pid, number)
        polite = {pid for pid, number in self._farewells.items() if number != signal.SIGKILL}
        while psutil.Process().children():
            self.reap()
            spared = {pid for pid in polite if pid not in self._exit_codes} if time.monotonic() < deadline else set()
            for process in psutil.Process().children(recursive=True):
                if not _belongs_to(process, spared):
                    send(process.pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        for started in self._kept:
            _remove_shared_memory(started.pid)
        shutil.rmtree(self._home, ignore_errors=True)

    def _start(self, command: dict[str, Any]) -> dict[str, Any]:
        farewell = int(command["farewell"])
        # Process ids come again: what is known of an earlier process must go before anything of this one is collected.
        self._starting = True
        try:
            process = self._spawn(command, farewell)
            self._exit_codes.pop(process.pid, None)
        finally:
            self._starting = False
        self._kept.append(process)
        self._started[command["name"]] = process
        self._farewells[process.pid] = farewell
        self.reap()
        return {"pid": process.pid}

    def _spawn(self, command: dict[str, Any], farewell: int) -> subprocess.Popen[bytes]:
        identity = {} if command["user"] is None else {**command["user"], "extra_groups": ()}
        with Path(command["log"]).open("ab") as log:
            return subprocess.Popen(
                command["command"],
                env=command["environment"],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: _die_with_supervisor(farewell),  # noqa: PLW1509 - this process has one thread
                **identity,
            )

    def _signal(self, command: dict[str, Any]) -> dict[str, Any]:
        process = self._started[command["name"]]
        if process.pid not in self._exit_codes:
            send(process.pid, command["number"])
        return {}

    def _kill(self, command: dict[str, Any]) -> dict[str, Any]:
        process = self._started[command["name"]]
        if process.pid not in self._exit_codes:
            kill_family(process.pid, seconds=command["seconds"])
        return {}

    def _status(self, name: str) -> dict[str, Any]:
        self.reap()
        process = self._started[name]
        return {"pid": process.pid, "exit_code": self._exit_codes.get(process.pid)}


def _belongs_to(process: psutil.Process, pids: set[int]) -> bool:
    """Return whether a process is one of these or descends from one of them."""
    try:
        return process.pid in pids or any(parent.pid in pids for parent in process.parents())
    except psutil.NoSuchProcess:
        return True


def _die_with_supervisor(number: int) -> None:
    """Ask Linux to send this signal should the supervisor itself be killed. Runs in the child between fork and exec."""
    if _IS_LINUX:
        _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def _remove_shared_memory(creator: int) -> None:
    """Remove the System V shared memory that a process made and, being killed, could not remove (Postgres has one)."""
    table = Path("/proc/sysvipc/shm")
    if not table.exists():
        return
    names, *rows = (line.split() for line in table.read_text(encoding="ascii").splitlines())
    for row in rows:
        segment = dict(zip(names, row, strict=True))
        if int(segment["cpid"]) == creator:
            _libc.shmctl(int(segment["shmid"]), _IPC_RMID, None)


def _commands(parent: int) -> Iterator[dict[str, Any]]:
    """Yield the commands on standard input until it ends or the parent is gone."""
    buffer = b""
    descriptor = sys.stdin.fileno()
    while os.getppid() == parent:
        # The parent is looked at as well: a process that it forked may hold the pipe open beyond its death.
        readable, _, _ = select.select([descriptor], [], [], _PARENT_CHECK_SECONDS)
        if not readable:
            continue
        chunk = os.read(descriptor, _READ_BYTES)
        if not chunk:
            return
        *lines, buffer = (buffer + chunk).split(b"\n")
        yield from map(json.loads, lines)


def main(home: Path) -> None:
    """Serve one stack until its owner is gone, then clean up."""
    parent = os.getppid()
    if _IS_LINUX:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A handler and not SIG_IGN: programs inherit what is ignored, and a JVM would then ignore SIGTERM, too.
        signal.signal(number, lambda *_: None)
    supervisor = Supervisor(home)
    signal.signal(signal.SIGCHLD, supervisor.reap)
    try:
        for command in _commands(parent):
            sys.stdout.write(json.dumps({**supervisor.answer(command), "call": command["call"]}) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        pass  # the owner went away before it read the answer
    finally:
        supervisor.stop_all()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
