"""The parent's side of one warm child process."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import orjson

from workorders.core.worker import log_capture
from workorders.core.worker.ipc import PIECE, Frame, FrameReader
from workorders.core.worker.model import Invocation, Specification
from workorders.core.worker.shared_clock import SharedClock

_PIPE_BYTES: Final = 1 << 20
_REAP_SECONDS: Final = 10.0
_LINUX: Final = sys.platform == "linux"


class ChildProcess:
    """Starts a process, sends invocations, and reads results. Blocks only until a killed process has ended."""

    def __init__(self, specification: Specification, *, captured_bytes: int) -> None:
        self.started_at = time.monotonic()
        #: Number and invocation that were sent and whose result has not arrived.
        self.in_flight: tuple[int, Invocation] | None = None
        #: Whether it has imported the callable.
        self.ready = False
        self._captured_bytes = captured_bytes
        self._clock = SharedClock.create()
        self.log_descriptor = log_capture.create()
        commands_read, self._commands = os.pipe()
        self.results, results_write = os.pipe()
        settings = specification.for_child(
            commands=commands_read,
            results=results_write,
            clock=self._clock.descriptor,
            captured_bytes=captured_bytes,
        )
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
                [sys.executable, "-m", "workorders.core.worker.child", orjson.dumps(settings).decode()],
                stdin=subprocess.DEVNULL,
                stdout=self.log_descriptor,
                stderr=self.log_descriptor,
                pass_fds=(commands_read, results_write, self._clock.descriptor),
                env=_environment(),
                # So that kill() also reaches what its callables have started.
                start_new_session=True,
            )
        finally:
            os.close(commands_read)
            os.close(results_write)
        for descriptor in (self._commands, self.results):
            os.set_blocking(descriptor, False)
            _enlarge(descriptor)
        self._reader = FrameReader()
        self._unsent = memoryview(b"")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def commands(self) -> int:
        """The descriptor to wait for when something is unsent."""
        return self._commands

    @property
    def unsent(self) -> bool:
        """Whether a part of the last invocation is not in the pipe yet."""
        return len(self._unsent) > 0

    @property
    def is_free(self) -> bool:
        """Whether it can take an invocation."""
        return self.ready and self.in_flight is None

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def send(self, number: int, invocation: Invocation) -> None:
        """Send an invocation; its result will carry the number."""
        header: list[Any] = [
            number,
            invocation.run_id,
            invocation.work_order_id,
            invocation.attempt,
            invocation.trigger,
        ]
        self._unsent = memoryview(Frame(header, invocation.body, invocation.request).encode())
        self.in_flight = (number, invocation)
        self.push()

    def push(self) -> None:
        """Write as much of the unsent part as the pipe takes now."""
        while self.unsent:
            try:
                sent = os.write(self._commands, self._unsent)
            except BlockingIOError:
                return
            except BrokenPipeError:
                # It has ended; the pool's next step notices that.
                self._unsent = memoryview(b"")
                return
            self._unsent = self._unsent[sent:]

    def receive(self) -> Iterator[Frame]:
        """Yield the frames that have arrived."""
        piece = None
        while piece is None or len(piece) == PIECE:
            try:
                piece = os.read(self.results, PIECE)
            except BlockingIOError:
                return
            yield from self._reader.feed(piece)

    def current(self) -> tuple[int | None, float]:
        """Return the number of the invocation at work, if any, and for how many seconds it has run."""
        return self._clock.read()

    @property
    def has_begun(self) -> bool:
        """Whether it has begun the invocation in flight."""
        return self.in_flight is not None and self._clock.read()[0] == self.in_flight[0]

    def seconds_left(self, timeout_seconds: float, start_seconds: float) -> float:
        """Return how many seconds the invocation at work, or the start, may still take; negative if it is late."""
        if not self.ready:
            return start_seconds - (time.monotonic() - self.started_at)
        number, seconds = self.current()
        return timeout_seconds - seconds if number is not None else timeout_seconds

    def captured_output(self) -> log_capture.Captured:
        """Return its captured output, and empty the file."""
        return log_capture.take(self.log_descriptor, self._captured_bytes)

    def bound_log(self) -> None:
        """Prevent its log from filling the disk."""
        log_capture.bound(self.log_descriptor)

    def kill(self) -> int:
        """Kill it with every process in its session, and return its exit code."""
        # It may have ended already.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait(_REAP_SECONDS)

    def close(self) -> None:
        """Kill it and free its resources."""
        self.kill()
        os.close(self._commands)
        os.close(self.results)
        os.close(self.log_descriptor)
        self._clock.close()


def wait_for(processes: Iterable[ChildProcess], seconds: float) -> None:
    """Wait until one of them has sent data or accepts more, for a limited number of seconds."""
    poll = select.poll()
    for process in processes:
        poll.register(process.results, select.POLLIN)
        if process.unsent:
            poll.register(process.commands, select.POLLOUT)
    poll.poll(seconds * 1000)


def ended_by(exit_code: int) -> tuple[str, str]:
    """Return type and text of the error for a process that ended by itself."""
    if exit_code >= 0:
        return "ProcessExit", f"The callable ended its process, with exit code {exit_code}."
    name = signal.Signals(-exit_code).name
    hint = " The kernel does that when memory runs out." if name == "SIGKILL" else ""
    return name, f"The process of the callable was ended by {name}.{hint}"


def _environment() -> dict[str, str]:
    """Return this process's environment, with its module search path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": ""}


def _enlarge(descriptor: int) -> None:
    """Enlarge a pipe beyond 64 KiB, so that large bodies block neither side."""
    if _LINUX:
        import fcntl  # noqa: PLC0415 - F_SETPIPE_SZ is Linux's own

        try:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            # The user has reached the kernel's limit for pipes; a small one works too.
            return
