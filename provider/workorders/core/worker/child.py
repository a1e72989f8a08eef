"""The process in which callables run: `python -m workorders.core.worker.child SETTINGS`.

It is started by `WarmProcess`, imports the callable once, and then works through jobs, one after the other, until its
parent closes the pipe. Whatever a callable does to this process, it does to its own run alone: the outcome of every
run before has been handed over, and no run behind it has begun.
"""

import faulthandler
import os
import sys
import threading
import time
from io import TextIOWrapper
from queue import Queue
from typing import Any, Final, NoReturn, cast

import orjson

from workorders.core.worker import json_values, log_capture, outputs, run_logging
from workorders.core.worker.callables import load
from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import (
    CallableUnavailableError,
    FinalError,
    InputUnreadableError,
    OutputTooLargeError,
)
from workorders.core.worker.ipc import Frame, FrameReader
from workorders.core.worker.model import Job, Message
from workorders.core.worker.shared_clock import SharedClock

READY: Final = "ready"
UNAVAILABLE: Final = "unavailable"
SKIPPED: Final = "skipped"
RETURNED: Final = "returned"
GIVE_BACK: Final = "give back"
_PIECE: Final = 1 << 20
_LOG_OF_PROCESS: Final = 2


class Child:
    """Runs jobs and hands their outcomes over."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._commands: int = settings["commands"]
        self._outcomes: int = settings["outcomes"]
        self._clock = SharedClock(settings["clock"])
        self._callable: str = settings["callable"]
        self._captured_bytes: int = settings["captured_bytes"]
        self._output_bytes: int = settings["output_bytes"]
        self._carry_headers: list[str] = settings["carry_headers"]
        # Both threads send, and a frame must stay whole.
        self._sending = threading.Lock()
        self._stopped_lanes: dict[int, int] = {}
        self._jobs: Queue[Frame] = Queue()
        self._logging = run_logging.install()
        for descriptor in (self._commands, self._outcomes, self._clock.descriptor):
            # A program that a callable starts and leaves behind must not keep the pipes open.
            os.set_inheritable(descriptor, False)

    def work(self) -> NoReturn:
        """Import the callable, and run every job that comes."""
        # A thread of its own, so that the parent's end is noticed amid a run that lasts for hours.
        threading.Thread(target=self._read, daemon=True, name="workorders commands").start()
        try:
            function = load(self._callable)
        except CallableUnavailableError as error:
            self._send(Frame([UNAVAILABLE, str(error), *self._take_log()]))
            os._exit(0)
        self._send(Frame([READY, None, *self._take_log()]))
        while True:
            self._run(function, self._jobs.get())

    def _run(self, function: Any, frame: Frame) -> None:
        number, run_id, work_order_id, attempt, trigger, lane, turn = frame.header
        if lane is not None and turn <= self._stopped_lanes.get(lane, -1):
            self._send(Frame([number, SKIPPED]))
            return
        job = Job(run_id, work_order_id, attempt, frame.first, frame.second, trigger, lane)
        context = Context(job, self._carry_headers)
        self._logging.context = context
        started = time.time()
        state, error_type, error_text, trace, output = "success", None, None, "", None
        may_retry = True
        self._clock.begin(number)
        try:
            output = outputs.kept(function(json_values.loads(frame.first), context), self._output_bytes)
        # Everything, `sys.exit()` and Ctrl-C of a callable included: it ends the run and not the process.
        except BaseException as error:  # noqa: BLE001
            # What could not be read was never given to the function, which is not to blame.
            state = "exception" if isinstance(error, InputUnreadableError) else "failed"
            error_type, error_text = type(error).__qualname__, run_logging.error_text(error)
            trace = run_logging.traceback_text(error)
            may_retry = not isinstance(error, FinalError | InputUnreadableError | OutputTooLargeError)
            if lane is not None:
                self._stopped_lanes[lane] = turn
        self._clock.ended(number)
        log = [*self._take_log(), trace]
        messages = [_plain(message) for message in context.messages] if state == "success" else []
        header = [number, state, error_type, error_text, log, [started, time.time()], messages, may_retry]
        self._send(Frame(header, output or b"", b"" if output is None else b"1"))
        self._logging.context = None
        self._clock.nothing()

    def _take_log(self) -> log_capture.Captured:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (ValueError, OSError, AttributeError):
                # A callable has closed or replaced it; what it wrote there is its own affair.
                continue
        return log_capture.take(_LOG_OF_PROCESS, self._captured_bytes)

    def _send(self, frame: Frame) -> None:
        rest = memoryview(frame.encode())
        with self._sending:
            while rest:
                rest = rest[os.write(self._outcomes, rest) :]

    def _give_back(self) -> None:
        """Return the jobs that have not begun: the one in hand lasts, and another process is free."""
        # All of them at one stroke: taken one by one, a job could begin whose predecessor in its lane was just taken.
        with self._jobs.mutex:
            numbers = [frame.header[0] for frame in self._jobs.queue]
            self._jobs.queue.clear()
        self._send(Frame([RETURNED, numbers]))

    def _read(self) -> None:
        reader = FrameReader()
        while piece := os.read(self._commands, _PIECE):
            for frame in reader.feed(piece):
                if frame.header[0] == GIVE_BACK:
                    self._give_back()
                else:
                    self._jobs.put(frame)
        # The parent is gone or wants no more: nobody would hear of what is still at work.
        os._exit(0)


def _plain(message: Message) -> list[Any]:
    """Return a message as JSON can say it: bytes as text of one character a byte."""
    headers = [[name, _text(value)] for name, value in message.headers]
    return [message.to, _text(message.key), _text(message.value), headers, *message[4:]]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def main() -> NoReturn:
    """Work for the parent that is named on the command line."""
    # What a segmentation fault leaves behind is the run's log as well.
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    Child(orjson.loads(sys.argv[1])).work()


if __name__ == "__main__":
    main()
