"""One warm process of callables, as its parent sees it."""

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
from workorders.core.worker.model import Job, Specification
from workorders.core.worker.shared_clock import SharedClock

_PIPE_BYTES: Final = 1 << 20
_REAP_SECONDS: Final = 10.0
_LINUX: Final = sys.platform == "linux"


class WarmProcess:
    """Starts the process, feeds it, and learns what became of it. Never waits, but for the end of a killed process."""

    def __init__(self, specification: Specification, *, captured_bytes: int) -> None:
        self.started_at = time.monotonic()
        #: The job that was handed over and whose outcome has not come back, with its number.
        self.in_hand: tuple[int, Job] | None = None
        #: Whether it has imported the callable.
        self.ready = False
        self._captured_bytes = captured_bytes
        self._clock = SharedClock.create()
        self.log_descriptor = log_capture.create()
        commands_read, self._commands = os.pipe()
        self.outcomes, outcomes_write = os.pipe()
        settings = specification.for_child(
            commands=commands_read,
            outcomes=outcomes_write,
            clock=self._clock.descriptor,
            captured_bytes=captured_bytes,
        )
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
                [sys.executable, "-m", "workorders.core.worker.child", orjson.dumps(settings).decode()],
                stdin=subprocess.DEVNULL,
                stdout=self.log_descriptor,
                stderr=self.log_descriptor,
                pass_fds=(commands_read, outcomes_write, self._clock.descriptor),
                env=_environment(),
                # So that it can be killed with all that its callables have started.
                start_new_session=True,
            )
        finally:
            os.close(commands_read)
            os.close(outcomes_write)
        for descriptor in (self._commands, self.outcomes):
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
        """Whether a part of what was handed over is still on this side."""
        return len(self._unsent) > 0

    @property
    def is_free(self) -> bool:
        """Whether it can be given a job."""
        return self.ready and self.in_hand is None

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def hand_over(self, number: int, job: Job) -> None:
        """Give it a job, whose outcome is known by the number."""
        header: list[Any] = [number, job.run_id, job.work_order_id, job.attempt, job.trigger]
        self._unsent = memoryview(Frame(header, job.body, job.request).encode())
        self.in_hand = (number, job)
        self.push()

    def push(self) -> None:
        """Send as much of what is unsent as the pipe takes now."""
        while self.unsent:
            try:
                sent = os.write(self._commands, self._unsent)
            except BlockingIOError:
                return
            except BrokenPipeError:
                # It has ended; whoever asks next learns so.
                self._unsent = memoryview(b"")
                return
            self._unsent = self._unsent[sent:]

    def receive(self) -> Iterator[Frame]:
        """Yield what it has sent until now."""
        piece = None
        while piece is None or len(piece) == PIECE:
            try:
                piece = os.read(self.outcomes, PIECE)
            except BlockingIOError:
                return
            yield from self._reader.feed(piece)

    def at_work(self) -> tuple[int | None, float]:
        """Return the number of the job that it works at, if any, and for how many seconds."""
        return self._clock.read()

    @property
    def has_begun(self) -> bool:
        """Whether it has begun the job in hand."""
        return self.in_hand is not None and self._clock.read()[0] == self.in_hand[0]

    def seconds_left(self, timeout_seconds: float, start_seconds: float) -> float:
        """Return how much longer the job in hand may last, or the start; fewer than 0 when it is over time."""
        if not self.ready:
            return start_seconds - (time.monotonic() - self.started_at)
        number, seconds = self.at_work()
        return timeout_seconds - seconds if number is not None else timeout_seconds

    def last_words(self) -> log_capture.Captured:
        """Return what is in its log."""
        return log_capture.take(self.log_descriptor, self._captured_bytes)

    def bound_log(self) -> None:
        """Keep its log from filling the disk."""
        log_capture.bound(self.log_descriptor)

    def kill(self) -> int:
        """End it at once, with everything it has started, and return its exit code."""
        # It may have ended, and have left nothing behind.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait(_REAP_SECONDS)

    def close(self) -> None:
        """Kill it and give everything back."""
        self.kill()
        os.close(self._commands)
        os.close(self.outcomes)
        os.close(self.log_descriptor)
        self._clock.close()


def wait_for(processes: Iterable[WarmProcess], seconds: float) -> None:
    """Wait until one of them has sent something or takes more of what is unsent, for at most so many seconds."""
    poll = select.poll()
    for process in processes:
        poll.register(process.outcomes, select.POLLIN)
        if process.unsent:
            poll.register(process.commands, select.POLLOUT)
    poll.poll(seconds * 1000)


def ended_by(exit_code: int) -> tuple[str, str]:
    """Return the type and the sentence of the error that stands for a process that ended by itself."""
    if exit_code >= 0:
        return "ProcessExit", f"The callable ended its process, with exit code {exit_code}."
    name = signal.Signals(-exit_code).name
    hint = " That is what the kernel does where memory runs out." if name == "SIGKILL" else ""
    return name, f"The process of the callable was ended by {name}.{hint}"


def _environment() -> dict[str, str]:
    """Return this process's environment; modules are found where this process finds them."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUNBUFFERED": ""}


def _enlarge(descriptor: int) -> None:
    """Give a pipe room for more than 64 KiB, so that neither side waits for the other."""
    if _LINUX:
        import fcntl  # noqa: PLC0415 - F_SETPIPE_SZ is Linux's own

        try:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            # The user has used up what the kernel allows for pipes; a small one does as well.
            return
