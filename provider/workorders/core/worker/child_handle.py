"""The parent's side of one warm child process."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

import orjson

from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.worker import log_capture
from workorders.core.worker.captured_text import Captured
from workorders.core.worker.child import STORED
from workorders.core.worker.descendants import MARK, kill_descendants
from workorders.core.worker.ipc import PIECE, Frame, FrameError, FrameReader
from workorders.core.worker.steps import MAX_STEP_BYTES

_PIPE_BYTES: Final = 1 << 20
_REAP_SECONDS: Final = 10.0
_EXIT_SECONDS: Final = 1.0
"""A process that has closed the pipe of its results ends within this time, unless its function closed the pipe."""
_MAX_HEADER_BYTES: Final = 16 << 20
"""More than an error and a traceback of `captured_text.MAX_SENT_CHARACTERS`, however JSON escapes them."""
_LINUX: Final = sys.platform == "linux"
_CONTEXT_SETTINGS: Final = {"carry_headers", "max_published_messages", "max_published_bytes"}


class ChildProcess:
    """Starts a process, sends runs, and reads results. Blocks only until a killed process has ended."""

    def __init__(self, definition: WorkflowDefinition, *, captured_bytes: int, user_database: str | None) -> None:
        #: The run that was sent and whose result has not arrived.
        self.in_flight: ClaimedRun | None = None
        #: Whether it has imported the callable.
        self.ready = False
        #: Whether a run left something behind in it, so that it must have no other.
        self.is_used_up = False
        #: Why it must be replaced: it can send no results any more, or what it sends is none.
        self.fault: str | None = None
        #: When the run in flight was sent, or the last part of its result arrived; at first, when the process started.
        self._since = time.monotonic()
        #: The steps of the run in flight that it waits for.
        self._asked: set[str] = set()
        self._asked_at = 0.0
        self._has_stepped = False
        self._was_emptied = False
        self._mark = uuid4().hex
        self._captured_bytes = captured_bytes
        self._log = log_capture.create()
        database = definition.database if user_database else None
        # Its reading end stays open here, too, because it shows how much the process has read.
        self._commands_read, self.commands = os.pipe()
        self.results, results_write = os.pipe()
        settings = {
            "commands": self._commands_read,
            "results": results_write,
            "callable": definition.callable,
            "output_bytes": definition.output_bytes,
            "context": definition.model_dump(include=_CONTEXT_SETTINGS),
            "database": database and database.model_dump(),
            "parent": os.getpid() if threading.current_thread() is threading.main_thread() else None,
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
                [sys.executable, "-m", "workorders.core.worker.child", orjson.dumps(settings).decode()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=(self._commands_read, results_write),
                env=_environment(self._mark),
                # So that kill() also reaches what its callables have started.
                start_new_session=True,
            )
        finally:
            os.close(results_write)
        for descriptor in (self.commands, self.results):
            os.set_blocking(descriptor, False)
            _enlarge(descriptor)
        first_bytes = max(definition.output_bytes, MAX_STEP_BYTES)
        self._reader = FrameReader((_MAX_HEADER_BYTES, first_bytes, definition.max_published_bytes))
        # It is neither on the command line nor in the environment, which other processes may read.
        self._unsent = memoryview(Frame([], user_database.encode()).encode() if database and user_database else b"")

    @property
    def is_unsent(self) -> bool:
        """Whether a part of the run in flight is not in the pipe yet."""
        return len(self._unsent) > 0

    @property
    def is_free(self) -> bool:
        """Whether it can take a run."""
        return self.ready and self.in_flight is None and not self.is_used_up

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def send(self, run: ClaimedRun, traceparent: str | None = None) -> None:
        """Send a run, with the traceparent of its span if there is one; its result will carry its id."""
        header: list[Any] = [run.run_id, run.work_order_id, run.attempt, run.trigger or None, traceparent]
        if run.stored:
            header += [run.stored.generation, run.stored.results]
        self._since = time.monotonic()
        self.in_flight = run
        self._asked.clear()
        self._has_stepped = False
        self._write(Frame(header, run.body or b"", run.request))

    def note_step(self, name: str, *, is_asked: bool) -> None:
        """Note that the run in flight has finished a step, and whether it waits until it is stored."""
        self._has_stepped = True
        if is_asked:
            if not self._asked:
                self._asked_at = time.monotonic()
            self._asked.add(name)

    def answer_step(self, name: str, error: str | None) -> None:
        """Tell the run in flight that a step is stored, or why it cannot be."""
        if name in self._asked and self.in_flight:
            self._asked.remove(name)
            if not self._asked:
                # The time limit of a run does not include the time in which it waited for this process.
                self._since += time.monotonic() - self._asked_at
            self._write(Frame([STORED, self.in_flight.run_id, name, error]))

    def _write(self, frame: Frame) -> None:
        self._unsent = memoryview(bytes(self._unsent) + frame.encode())
        self.push()

    def push(self) -> None:
        """Write as much of the unsent part as the pipe takes now."""
        while self.is_unsent:
            try:
                self._unsent = self._unsent[os.write(self.commands, self._unsent) :]
            except BlockingIOError:
                return

    def receive(self) -> Iterator[Frame]:
        """Yield the frames that have arrived; set `fault` if they are none, or if no more can arrive."""
        piece = None
        while self.fault is None and (piece is None or len(piece) == PIECE):
            try:
                piece = os.read(self.results, PIECE)
            except BlockingIOError:
                return
            if not piece:
                self._note_hang_up()
                return
            try:
                yield from self._reader.feed(piece)
            except FrameError as error:
                self.fault = f"The process sent what is no result ({error}), so it was killed."
            if self._reader.is_partial:
                self._since = time.monotonic()

    def _note_hang_up(self) -> None:
        """Tell a process that has ended from one whose function closed the pipe, which would wake its parent."""
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.fault = "The run closed the pipe by which its process sends results, so the process was killed."

    @property
    def run_seconds(self) -> float:
        """For how many seconds it has executed the run in flight, or sent no more of its result; 0 if there is none."""
        return 0.0 if self.in_flight is None else (self._asked_at if self._asked else time.monotonic()) - self._since

    @property
    def has_begun(self) -> bool:
        """Whether it has read the whole run in flight, which it begins at once."""
        if self._has_stepped:
            return self.in_flight is not None
        unread = fcntl.ioctl(self._commands_read, termios.FIONREAD, bytes(4))
        return self.in_flight is not None and not self.is_unsent and not any(unread)

    def seconds_left(self, timeout_seconds: float, start_seconds: float) -> float:
        """Return how many seconds the run in flight, or the start, may still take; negative if it is late."""
        if not self.ready:
            return start_seconds - (time.monotonic() - self._since)
        return timeout_seconds - self.run_seconds

    def captured_output(self) -> Captured:
        """Return what it has written since the last call."""
        was_emptied, self._was_emptied = self._was_emptied, False
        return log_capture.take(self._log, self._captured_bytes, was_emptied=was_emptied)

    def bound_log(self) -> None:
        """Prevent its log from filling the disk."""
        self._was_emptied |= log_capture.bound(self._log)

    def send_kill(self) -> None:
        """Kill it with every process in its session, and with all that it has started if it has a run.

        It does not wait until they have ended.
        """
        # It may have ended already.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self.in_flight is not None:
            kill_descendants(self._mark)

    def kill(self) -> int:
        """Kill it as `send_kill` does, and return its exit code."""
        self.send_kill()
        return self._process.wait(_REAP_SECONDS)

    def close(self) -> None:
        """Kill it and free its resources."""
        self.kill()
        for descriptor in (self._commands_read, self.commands, self.results, self._log):
            os.close(descriptor)


def wait_for(processes: Iterable[ChildProcess], seconds: float) -> None:
    """Wait until one of them has sent data or accepts more, for a limited number of seconds."""
    poll = select.poll()
    for process in processes:
        poll.register(process.results, select.POLLIN)
        if process.is_unsent:
            poll.register(process.commands, select.POLLOUT)
    poll.poll(seconds * 1000)


def ended_by(exit_code: int) -> tuple[str, str]:
    """Return type and text of the error for a process that ended by itself."""
    if exit_code >= 0:
        return "ProcessExit", f"The callable ended its process, with exit code {exit_code}."
    name = signal.Signals(-exit_code).name
    hint = " The kernel does that when memory runs out." if name == "SIGKILL" else ""
    return name, f"The process of the callable was ended by {name}.{hint}"


def _environment(mark: str) -> dict[str, str]:
    """Return this process's environment, with its module search path and a mark."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": "", MARK: mark}


def _enlarge(descriptor: int) -> None:
    """Enlarge a pipe beyond 64 KiB, so that large bodies block neither side."""
    if _LINUX:
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            # The user has reached the kernel's limit for pipes; a small one works too.
            return
