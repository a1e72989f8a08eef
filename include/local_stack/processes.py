"""The processes of a stack, as seen by the one who started it. The supervisor owns them (see ``supervisor``)."""

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from local_stack.errors import StackError
from local_stack.waiting import wait_until

_STOP_SECONDS = 60.0
_LOG_LINES = 12
_SUPERVISOR_LOG = "supervisor.log"
_INCLUDE = Path(__file__).resolve().parents[1]


class Processes:
    """A connection to one supervisor process."""

    def __init__(self, home: Path, logs: Path) -> None:
        #: The folder of the logs, one file a process.
        self.logs = logs
        self._lock = threading.Lock()
        self._calls = 0
        path = [str(_INCLUDE), *filter(None, [os.environ.get("PYTHONPATH")])]
        with (logs / _SUPERVISOR_LOG).open("ab") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", "local_stack.supervisor", str(home)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # A separate session: Ctrl-C reaches everything that shares the terminal's process group.
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            )

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        return self._supervisor.pid

    def call(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Send one command to the supervisor and return its answer.

        Raises:
            StackError: The supervisor is gone, or could not do what it was asked.
        """
        stdin, stdout = self._supervisor.stdin, self._supervisor.stdout
        if stdin is None or stdout is None:
            raise AssertionError("The supervisor was started with pipes.")
        with self._lock:
            self._calls += 1
            try:
                stdin.write(json.dumps({**command, "call": self._calls}).encode() + b"\n")
                stdin.flush()
                answer = self._answer(stdout, self._calls)
            except (OSError, ValueError):
                answer = None
        if answer is None:
            raise StackError(
                "The local stack's supervisor is gone, and every process of the stack with it; its log is "
                f"{self.logs / _SUPERVISOR_LOG}."
            )
        if "error" in answer:
            raise StackError(f"The supervisor could not {command['do']} {command['name']}: {answer['error']}")
        return answer

    @staticmethod
    def _answer(stdout: IO[bytes], call: int) -> dict[str, Any] | None:
        """Return the answer to a call; None when the supervisor is gone.

        Who was interrupted while waiting (a test whose time was over) has left its answer unread; it is passed over.
        """
        while line := stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer["call"] == call:
                return answer
        return None

    def close(self) -> None:
        """Let the supervisor stop everything and wait for its end. May be called more than once."""
        with self._lock:
            for pipe in (self._supervisor.stdin, self._supervisor.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        self._supervisor.wait()


class ManagedProcess:
    """One process of the stack, that can be stopped, killed and started again."""

    def __init__(
        self,
        processes: Processes,
        name: str,
        command: Sequence[str | Path],
        environment: Mapping[str, str],
        *,
        farewell: signal.Signals = signal.SIGKILL,
        unprivileged: bool = False,
    ) -> None:
        """Describe the process; ``start`` starts it.

        Args:
            processes: The supervisor that will own it.
            name: Its name within the stack, and its log file's.
            command: Program and arguments. No secrets: arguments can be read by everyone on the machine.
            environment: The whole environment of the process.
            farewell: The signal it gets when the stack ends; others than SIGKILL for what must tidy up in the kernel.
            unprivileged: Run as ``nobody`` if we are root.
        """
        self.name = name
        #: Where the process writes its output.
        self.log = processes.logs / f"{name}.log"
        self._processes = processes
        self._command = [str(part) for part in command]
        self._environment = dict(environment)
        self._farewell = farewell
        self._user = unprivileged_user() if unprivileged else None

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        return int(self._status()["pid"])

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if a signal ended it."""
        code: int | None = self._status()["exit_code"]
        return code

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self.exit_code is None

    def start(self) -> None:
        """Start the process and return at once."""
        self._processes.call(
            {
                "do": "start",
                "name": self.name,
                "command": self._command,
                "environment": self._environment,
                "log": str(self.log),
                "farewell": int(self._farewell),
                "user": self._user,
            }
        )

    def wait_until(self, condition: Callable[[], bool], *, seconds: float, what: str) -> None:
        """Wait for a condition that holds once the process is ready.

        Raises:
            StackError: The process ended, or the time was over.
        """
        if not wait_until(lambda: not self.running or condition(), seconds=seconds):
            raise StackError(f"{what} was not ready after {seconds:g} s; its log is {self.log}{self._last_lines()}")
        if not self.running:
            raise StackError(
                f"{what} ended with exit code {self.exit_code} while it started; its log is {self.log}"
                f"{self._last_lines()}"
            )

    def finish(self, *, seconds: float, what: str) -> None:
        """Start a process that ends by itself and wait for its end.

        Raises:
            StackError: It failed, or the time was over.
        """
        self.start()
        if not wait_until(lambda: not self.running, seconds=seconds):
            self.kill()
            raise StackError(f"{what} did not end within {seconds:g} s; its log is {self.log}{self._last_lines()}")
        if self.exit_code != 0:
            raise StackError(f"{what} failed; its log is {self.log}{self._last_lines()}")

    def stop(self, number: signal.Signals = signal.SIGTERM, *, seconds: float = _STOP_SECONDS) -> None:
        """Ask the process to end and wait; kill it with its descendants if it does not."""
        self._signal(number)
        if not wait_until(lambda: not self.running, seconds=seconds):
            self.kill()

    def kill(self, *, descendants: bool = True) -> None:
        """Kill the process by SIGKILL, with all its descendants (a machine that lost power) or alone, and wait.

        Raises:
            StackError: Some of them are there still.
        """
        if descendants:
            self._processes.call({"do": "kill", "name": self.name, "seconds": _STOP_SECONDS})
        else:
            self._signal(signal.SIGKILL)
        if not wait_until(lambda: not self.running, seconds=_STOP_SECONDS):
            raise StackError(f"{self.name} was killed and is there still after {_STOP_SECONDS:g} s.")

    def _signal(self, number: signal.Signals) -> None:
        self._processes.call({"do": "signal", "name": self.name, "number": int(number)})

    def _status(self) -> dict[str, Any]:
        return self._processes.call({"do": "status", "name": self.name})

    def _last_lines(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        return ", which ends with\n  " + "\n  ".join(lines) if lines else ", which is empty."


def unprivileged_user() -> dict[str, int] | None:
    """Return the user of a process that refuses to run as root: ``nobody`` if we are root, else ourselves (None)."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam("nobody")
    return {"user": account.pw_uid, "group": account.pw_gid}
