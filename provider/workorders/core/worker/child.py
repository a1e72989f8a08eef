"""The process in which callables run: `python -m workorders.core.worker.child SETTINGS`.

It is started by `WarmProcess`, imports the callable once, and then works at one job after the other until its parent
closes the pipe. It holds no job but the one at work: whatever a callable does to this process, it does to its own run
alone.
"""

import faulthandler
import importlib
import inspect
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from io import TextIOWrapper
from typing import Any, Final, NoReturn, cast

import orjson

from workorders.core.worker import json_values, log_capture, run_logging
from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import (
    CallableUnavailableError,
    FinalError,
    InputUnreadableError,
    OutputTooLargeError,
)
from workorders.core.worker.ipc import PIECE, Frame, FrameReader
from workorders.core.worker.model import Job, Message
from workorders.core.worker.shared_clock import SharedClock

READY: Final = "ready"
UNAVAILABLE: Final = "unavailable"
_LOG_OF_PROCESS: Final = 2

WorkflowFunction = Callable[[Any, Any], Any]
"""Takes the input and the context, and returns the output."""


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
        self._logging = run_logging.install()
        for descriptor in (self._commands, self._outcomes, self._clock.descriptor):
            # A program that a callable starts and leaves behind must not keep the pipes open.
            os.set_inheritable(descriptor, False)

    def work(self) -> NoReturn:
        """Import the callable, and run every job that comes."""
        threading.Thread(target=self._end_with_parent, daemon=True, name="workorders parent").start()
        try:
            function = load_function(self._callable)
        except CallableUnavailableError as error:
            self._send(Frame([UNAVAILABLE, str(error), *self._take_log()]))
            os._exit(0)
        self._send(Frame([READY, None, *self._take_log()]))
        reader = FrameReader()
        while piece := os.read(self._commands, PIECE):
            for frame in reader.feed(piece):
                self._run(function, frame)
        os._exit(0)

    def _run(self, function: Any, frame: Frame) -> None:
        number, run_id, work_order_id, attempt, trigger = frame.header
        job = Job(run_id, work_order_id, attempt, frame.first, frame.second, trigger)
        context = Context(job, self._carry_headers)
        self._logging.context = context
        started = time.time()
        state, error_type, error_text, trace, output = "success", None, None, "", None
        may_retry = True
        self._clock.begin(number)
        try:
            output = json_values.serialize_output(function(json_values.loads(frame.first), context), self._output_bytes)
        # Everything, `sys.exit()` and Ctrl-C of a callable included: it ends the run and not the process.
        except BaseException as error:  # noqa: BLE001
            # What could not be read was never given to the function, which is not to blame.
            state = "exception" if isinstance(error, InputUnreadableError) else "failed"
            error_type, error_text = type(error).__qualname__, run_logging.error_text(error)
            trace = run_logging.traceback_text(error)
            may_retry = not isinstance(error, FinalError | InputUnreadableError | OutputTooLargeError)
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
        while rest:
            rest = rest[os.write(self._outcomes, rest) :]

    def _end_with_parent(self) -> None:
        """End amid a run as well, however long it lasts: nobody would hear of it."""
        hang_up = select.poll()
        hang_up.register(self._commands, 0)
        hang_up.poll()
        os._exit(0)


def load_function(name: str) -> WorkflowFunction:
    """Import the function `package.module:function`.

    Raises:
        CallableUnavailableError: there is no such module or function, importing it failed, or it cannot be called with
            an input and a context. A slip of a deployment is found before the first run, and costs none.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    # An import runs other people's code, which may raise whatever it likes; `sys.exit` at its end among it.
    except (Exception, SystemExit) as error:
        raise CallableUnavailableError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise CallableUnavailableError(f"{name} is {type(found).__name__} and no function.")
    if not _takes_two(found):
        raise CallableUnavailableError(f"{name} cannot be called with an input and a context.")
    function: WorkflowFunction = found
    return function


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some of what is written in C says nothing of itself
        return True
    return True


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
