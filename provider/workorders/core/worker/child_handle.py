"""The parent's side of one warm child process."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import orjson

from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.worker import captured_text
from workorders.core.worker.captured_text import GAP
from workorders.core.worker.child import STORED
from workorders.core.worker.ipc import PIECE, TOKEN, Frame, FrameReader
from workorders.core.worker.steps import MAX_STEP_BYTES

MAX_SENT: Final = 256
"""Maximum number of runs that a process has or that were sent ahead."""
START_SECONDS: Final = 60.0
"""A process that has not imported its callable by then is late."""
_PIPE_BYTES: Final = 1 << 20
_REAP_SECONDS: Final = 10.0
_EXIT_SECONDS: Final = 1.0
"""A process that has closed the pipe of its results ends within this time, unless its function closed the pipe."""
_MAX_HEADER_BYTES: Final = 16 << 20
"""More than an error and a traceback of `captured_text.MAX_SENT_CHARACTERS`, however JSON escapes them."""
_MAX_ESCAPE_BYTES: Final = 6
"""JSON has at most so many for a byte of a log."""
_MARK: Final = "WORKORDERS_PROCESS"
"""A variable in the environment, which programs inherit. It tells what a process has started, also in other sessions
and when its parent has ended; to adopt that (as a subreaper) would mix it with other children of the worker."""
_MAX_LOOKS: Final = 20
_LOOK_SECONDS: Final = 0.005
"""In which a killed process ends, and what it started meanwhile is seen."""
_CONTEXT_SETTINGS: Final = {"carry_headers", "max_published_messages", "max_published_bytes"}


class ChildProcess:
    """Starts a process, sends runs, and reads results. Blocks only until a killed process has ended."""

    def __init__(self, definition: WorkflowDefinition, *, captured_bytes: int, user_database: str | None) -> None:
        #: The runs that were sent and whose results have not arrived.
        self.sent: deque[ClaimedRun] = deque()
        #: Whether it has imported the callable.
        self.ready = False
        #: Why it must be replaced: it can send no results any more, or what it sends is none.
        self.fault: str | None = None
        #: When the first run was sent, its predecessor ended, or the last part of its result arrived; at first, when
        #: the process started.
        self._since = time.monotonic()
        self._next_token = 0
        #: The step of the first run that it waits for: one at a time.
        self._asked: str | None = None
        self._asked_at = 0.0
        self._was_emptied = False
        self._mark = uuid4().hex
        self._timeout = definition.timeout
        self._captured_bytes = captured_bytes
        self._log = captured_text.create_log()
        database = definition.database if user_database else None
        # Their reading ends stay open here, too: to take back what the process has not begun.
        self._commands_read, self.commands = os.pipe()
        self._tokens_read, self._tokens = os.pipe()
        self.results, results_write = os.pipe()
        descriptors = (self._commands_read, self._tokens_read, results_write, self._log)
        settings = {
            "descriptors": descriptors,
            "max_log_bytes": captured_bytes,
            "callable": definition.callable,
            "max_output_bytes": definition.max_output_bytes,
            "context": definition.model_dump(include=_CONTEXT_SETTINGS),
            "database": database and database.model_dump(),
            "parent": os.getpid(),
        }
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": ""}
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
                [sys.executable, "-m", "workorders.core.worker.child", orjson.dumps(settings).decode()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=descriptors,
                env={**environment, _MARK: self._mark},
                # So that kill() also reaches what its callables have started.
                start_new_session=True,
            )
        finally:
            os.close(results_write)
        for descriptor in (self.commands, self._tokens_read, self.results):
            os.set_blocking(descriptor, False)
        for descriptor in (self.commands, self.results):
            # Beyond 64 KiB, so that large bodies block neither side, unless the user has reached the kernel's limit.
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        first_bytes = max(definition.max_output_bytes, MAX_STEP_BYTES)
        header_bytes = _MAX_HEADER_BYTES + _MAX_ESCAPE_BYTES * captured_bytes
        self._reader = FrameReader((header_bytes, first_bytes, definition.max_published_bytes))
        # It is neither on the command line nor in the environment, which other processes may read.
        self._unsent = memoryview(Frame([], user_database.encode()).encode() if database and user_database else b"")

    @property
    def in_flight(self) -> ClaimedRun | None:
        """The run that it executes, or will begin next."""
        return self.sent[0] if self.sent else None

    @property
    def is_unsent(self) -> bool:
        """Whether a part of what was sent is not in the pipe yet."""
        return len(self._unsent) > 0

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def send(self, runs: Sequence[tuple[ClaimedRun, str | None]]) -> None:
        """Send runs, each with the traceparent of its span if there is one; their results will carry their ids."""
        if not self.sent:
            self._begin_next()
        tokens, frames = [], []
        for run, traceparent in runs:
            self._next_token += 1
            header = [self._next_token, run.run_id, run.work_order_id, run.attempt, run.trigger or None, traceparent]
            header += run.stored or ()
            tokens.append(TOKEN.pack(self._next_token))
            frames.append(Frame(header, run.body or b"", run.request).encode())
            self.sent.append(run)
        # The process looks for the token of a run when it has all of the run.
        os.write(self._tokens, b"".join(tokens))
        self._write(b"".join(frames))

    def take_back(self) -> list[ClaimedRun]:
        """Take back and return the runs that the process has not begun, the last one first."""
        try:
            tokens = os.read(self._tokens_read, MAX_SENT * TOKEN.size)
        except BlockingIOError:
            return []
        return [self.sent.pop() for _ in range(len(tokens) // TOKEN.size)]

    def note_result(self) -> None:
        """Note that the first run has ended, so that the next one begins."""
        self.sent.popleft()
        self._begin_next()

    def _begin_next(self) -> None:
        self._since = time.monotonic()
        self._asked = None

    @property
    def is_asking(self) -> bool:
        """Whether the run in flight waits until a step is stored."""
        return self._asked is not None

    def note_step(self, name: str) -> None:
        """Note that the run in flight waits for a step."""
        self._asked, self._asked_at = name, time.monotonic()

    def answer_step(self, name: str, error: str | None) -> None:
        """Tell the run in flight that a step is stored, or why it cannot be."""
        if name == self._asked and self.in_flight:
            self._asked = None
            # The time limit of a run does not include the time in which it waited for this process.
            self._since += time.monotonic() - self._asked_at
            self._write(Frame([STORED, self.in_flight.run_id, name, error]).encode())

    def _write(self, content: bytes) -> None:
        self._unsent = memoryview(bytes(self._unsent) + content if self.is_unsent else content)
        self.push()

    def push(self) -> None:
        """Write as much of the unsent part as the pipe takes now."""
        while self.is_unsent:
            try:
                self._unsent = self._unsent[os.write(self.commands, self._unsent) :]
            except BlockingIOError:
                return

    def receive(self) -> Iterator[Frame]:
        """Yield the frames that have arrived; set `fault` if no more can arrive.

        Raises:
            ValueError: what has arrived is no frame.
        """
        piece = None
        while piece is None or len(piece) == PIECE:
            try:
                piece = os.read(self.results, PIECE)
            except BlockingIOError:
                return
            if not piece:
                self._note_hang_up()
                return
            yield from self._reader.feed(piece)
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
        return 0.0 if self.in_flight is None else (self._asked_at if self.is_asking else time.monotonic()) - self._since

    @property
    def seconds_left(self) -> float:
        """How many seconds the run in flight, or the start, may still take; negative if it is late."""
        if not self.ready:
            return START_SECONDS - (time.monotonic() - self._since)
        return self._timeout - self.run_seconds

    @property
    def is_late(self) -> bool:
        """Whether it must be killed, because its run or its start lasts too long."""
        return self.seconds_left < 0

    def captured_output(self) -> str:
        """Return what it has written since the last result."""
        log = captured_text.take_log(self._log, os.fstat(self._log).st_size, self._captured_bytes)
        return self.take_gap() + log

    def take_gap(self) -> str:
        """Return what replaces the part of the log that `bound_log` has deleted since the last call."""
        gap, self._was_emptied = GAP if self._was_emptied else "", False
        return gap

    def bound_log(self) -> None:
        """Prevent its log from filling the disk."""
        self._was_emptied |= captured_text.bound_log(self._log)

    def send_kill(self) -> None:
        """Kill it with every process in its session, and with all that it has started if it has a run.

        It does not wait until they have ended.
        """
        # It may have ended already.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self.in_flight is not None:
            _kill_marked(self._mark)

    def kill(self) -> int:
        """Kill it as `send_kill` does, and return its exit code."""
        self.send_kill()
        return self._process.wait(_REAP_SECONDS)

    def close(self) -> None:
        """Kill it and free its resources."""
        self.kill()
        pipes = (self._commands_read, self.commands, self._tokens_read, self._tokens, self.results)
        for descriptor in (*pipes, self._log):
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


def _kill_marked(mark: str) -> None:
    """Kill all processes of this user whose environment has a mark; one that was cleared has none."""
    for _ in range(_MAX_LOOKS):
        found = list(_processes_with(f"\0{_MARK}={mark}\0".encode()))
        if not found:
            return
        for pid in found:
            # It may have ended already.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _processes_with(variable: bytes) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        # Those of other users cannot be read, and some end meanwhile.
        with suppress(OSError):
            if variable in b"\0" + (folder / "environ").read_bytes():
                yield int(folder.name)
