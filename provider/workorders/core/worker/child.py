"""The process in which callables run: `python -m workorders.core.worker.child SETTINGS`.

`ChildProcess` starts it. It imports the callable once and then executes one run after the other until its parent closes
the pipe. It never holds a second run, so a callable that damages the process affects one run only.
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
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, Final, NoReturn, cast

import orjson

from workorders.core.items import Message
from workorders.core.worker import json_values, run_logging
from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import (
    CallableUnavailableError,
    InputUnreadableError,
    NonRetryableError,
    OutputTooLargeError,
)
from workorders.core.worker.ipc import PIECE, Frame, FrameReader

READY: Final = "ready"
UNAVAILABLE: Final = "unavailable"

WorkflowFunction = Callable[[Any, Any], Any]
"""Takes the input and the context, and returns the output."""


class Child:
    """Executes runs and sends their results."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._commands: int = settings["commands"]
        self._results: int = settings["results"]
        self._callable: str = settings["callable"]
        self._output_bytes: int = settings["output_bytes"]
        self._carry_headers: list[str] = settings["carry_headers"]
        self._logging = run_logging.install()
        for descriptor in (self._commands, self._results):
            # A program that a callable starts and leaves behind must not keep the pipes open.
            os.set_inheritable(descriptor, False)

    def work(self) -> NoReturn:
        """Import the callable, and execute every run that arrives."""
        threading.Thread(target=self._end_with_parent, daemon=True, name="workorders parent").start()
        try:
            function = load_function(self._callable)
        except CallableUnavailableError as error:
            self._send(Frame([UNAVAILABLE, str(error)]))
            os._exit(0)
        self._send(Frame([READY]))
        reader = FrameReader()
        while piece := os.read(self._commands, PIECE):
            for frame in reader.feed(piece):
                self._run(function, frame)
        os._exit(0)

    def _run(self, function: Any, frame: Frame) -> None:
        context = Context(*frame.header, request=frame.second, carry_headers=self._carry_headers)
        self._logging.context = context
        started = time.time()
        state, error_type, error_text, trace, output = "success", None, None, "", None
        may_retry = True
        try:
            output = json_values.serialize_output(function(json_values.loads(frame.first), context), self._output_bytes)
        # Everything, also `sys.exit()` and Ctrl-C in a callable: it ends the run and not the process.
        except BaseException as error:  # noqa: BLE001
            # The function never got an input that cannot be read.
            state = "exception" if isinstance(error, InputUnreadableError) else "failed"
            error_type, error_text = type(error).__qualname__, run_logging.error_text(error)
            trace = run_logging.traceback_text(error)
            may_retry = not isinstance(error, NonRetryableError | InputUnreadableError | OutputTooLargeError)
        messages = [_plain(message) for message in context.messages] if state == "success" else []
        header = [context.run_id, state, error_type, error_text, trace, [started, time.time()], messages, may_retry]
        self._send(Frame(header, output or b"", b"" if output is None else b"1"))
        self._logging.context = None

    def _send(self, frame: Frame) -> None:
        """Send a frame; its reader takes what the process wrote before it from the log."""
        for stream in (sys.stdout, sys.stderr):
            # A callable may have closed or replaced the stream.
            with suppress(ValueError, OSError, AttributeError):
                stream.flush()
        rest = memoryview(frame.encode())
        while rest:
            rest = rest[os.write(self._results, rest) :]

    def _end_with_parent(self) -> None:
        """End the process when its parent ends, also during a run."""
        hang_up = select.poll()
        hang_up.register(self._commands, 0)
        hang_up.poll()
        os._exit(0)


def load_function(name: str) -> WorkflowFunction:
    """Import the function `package.module:function`.

    Raises:
        CallableUnavailableError: there is no such module or function, its import failed, or it cannot be called with
            an input and a context. So a mistake in a deployment is found before the first run, and fails none.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    # An import runs other people's code, which may raise anything, also `sys.exit`.
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
    except ValueError:  # some functions written in C have no signature
        return True
    return True


def _plain(message: Message) -> list[Any]:
    """Return a message as JSON values: bytes as text with one character per byte."""
    headers = [[name, _text(value)] for name, value in message.headers]
    return [message.to, _text(message.key), _text(message.value), headers, *message[4:]]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def main() -> NoReturn:
    """Execute runs for the parent whose settings are on the command line."""
    # The traceback of a segmentation fault belongs to the run's log.
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    Child(orjson.loads(sys.argv[1])).work()


if __name__ == "__main__":
    main()
