"""The process in which callables run: `python -m workorders.core.worker.child SETTINGS`.

`ChildProcess` starts it. It imports the callable once and then executes one run after the other until its parent closes
the pipe. Runs are sent ahead, and each has a token in another pipe. The reader of the token has the run: this process,
which begins it, or its parent, which takes it back. So a callable that damages the process affects one run only.
"""

import contextvars
import ctypes
import faulthandler
import inspect
import logging
import os
import pkgutil
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import orjson

from workorders.core.worker import captured_text, json_values
from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import (
    CallableUnavailableError,
    InputUnreadableError,
    InvalidValueError,
    NonRetryableError,
    StepError,
)
from workorders.core.worker.ipc import PIECE, TOKEN, Frame, FrameReader
from workorders.core.worker.process_state import ProcessState, StateError
from workorders.core.worker.steps import StepKey, Steps

if TYPE_CHECKING:
    from workorders.core.worker.user_database import UserDatabase

READY: Final = "ready"
UNAVAILABLE: Final = "unavailable"
LEFT_BEHIND: Final = "left behind"
STEP: Final = "step"
"""A finished step. The process waits for an answer to it, unless it is committed in the user's database."""
STORED: Final = "stored"
"""The answer: the step is stored, or why it cannot be."""

_PR_SET_PDEATHSIG: Final = 1

WorkflowFunction = Callable[[Any, Any], Any]


class StandardError(logging.StreamHandler[Any]):
    """Writes to what is `sys.stderr` now, which the import of a module may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self.stream = sys.stderr
        super().emit(record)


class Child:
    """Executes runs, and sends their steps and their results."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._commands, self._tokens, self._results, self._log = settings["descriptors"]
        self._database: UserDatabase | None = None
        self._pid = os.getpid()
        self._files = os.fstat(self._results), os.fstat(self._log)
        self._reader = FrameReader()
        self._arrived: deque[Frame] = deque()
        self._token: int | None = None
        # A function may have threads.
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._current: Context | None = None
        formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s%(run)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        formatter.converter = time.gmtime
        handler = StandardError()
        handler.setFormatter(formatter)
        handler.addFilter(self._name_run)
        logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
        for descriptor in settings["descriptors"]:
            # A program that a callable starts and leaves behind must not keep the pipes open.
            os.set_inheritable(descriptor, False)

    def work(self) -> NoReturn:
        """Import the callable, and execute every run that arrives."""
        try:
            function = load_function(self._settings["callable"])
        except CallableUnavailableError as error:
            self._send(Frame([UNAVAILABLE, captured_text.error_text(error)]))
            os._exit(0)
        self._state = ProcessState()
        self._send(Frame([READY]))
        if self._settings["database"] is not None:
            from workorders.core.worker.user_database import UserDatabase  # noqa: PLC0415 - most workflows have none

            self._database = UserDatabase(self._receive().first.decode(), self._settings["database"])
        while True:
            frame = self._receive()
            # The function of the last run may not have waited for an answer.
            if frame.header[0] != STORED and self._may_begin(frame.header[0]):
                self._run(function, frame)

    def _name_run(self, record: logging.LogRecord) -> bool:
        """Add the current run to a log record."""
        context = self._current
        record.run = "" if context is None else f" run={context.run_id} traceparent={context.traceparent}"
        return True

    def store(self, run_id: str, name: str, result: bytes) -> None:
        """Let the parent store a step, and wait until it has."""
        self._require_current(run_id)
        with self._asking:
            self._send(Frame([STEP, run_id, name, None], result))
            error = self._receive_answer([STORED, run_id, name])
        if error is not None:
            raise InvalidValueError(f"The result of {name!r} cannot be stored: {error}")

    def transact(self, run_id: str, key: StepKey, call: Callable[[Any], bytes]) -> bytes:
        """Call a function in a transaction of the user's database, and tell the parent of its result."""
        self._require_current(run_id)
        if self._database is None:
            raise StepError(
                f"context.transaction({key.name!r}) was not begun, because the workflow has no database; give its "
                "field `database` an Airflow connection of type Postgres."
            )
        result, finished_at, made_by = self._database.transact(run_id, key, call)
        self._send(Frame([STEP, run_id, key.name, [finished_at, made_by]], result))
        return result

    def _require_current(self, run_id: str) -> None:
        if self._current is None or self._current.run_id != run_id:
            raise StepError("The run whose context this is has ended, so the step was not begun.")

    def _receive(self) -> Frame:
        """Return the next frame; end the process when the parent has closed the pipe."""
        while not self._arrived:
            self._read()
        return self._arrived.popleft()

    def _receive_answer(self, answer: list[str]) -> str | None:
        """Return the rest of an answer; runs that were sent ahead come before it."""
        while True:
            for frame in self._arrived:
                if frame.header[:3] == answer:
                    self._arrived.remove(frame)
                    error: str | None = frame.header[3]
                    return error
            self._read()

    def _read(self) -> None:
        piece = os.read(self._commands, PIECE)
        if not piece:
            os._exit(0)
        self._arrived.extend(self._reader.feed(piece))

    def _may_begin(self, token: int) -> bool:
        """Take the token of a run, and return whether it was there: the parent may have taken the run back."""
        if self._token is None:
            try:
                (self._token,) = TOKEN.unpack(os.read(self._tokens, TOKEN.size))
            except BlockingIOError:
                return False
        # Otherwise it is that of a later run.
        is_there = self._token == token
        if is_there:
            self._token = None
        return is_there

    def _run(self, function: Any, frame: Frame) -> None:
        header = frame.header
        steps = Steps(header[1], header[2], self, *header[6:])
        context = Context(*header[1:6], request=frame.second, steps=steps, **self._settings["context"])
        self._current = context
        started = time.time()
        output, messages, failure, state, may_retry = b"", b"", None, "success", True
        try:
            # In a copy of the context, so that the next run has other context variables and decimal settings.
            returned = contextvars.copy_context().run(function, json_values.loads(frame.first), context)
            if inspect.iscoroutine(returned):
                import asyncio  # noqa: PLC0415 - most functions need none

                # On a new event loop: what the coroutine leaves there ends with its run.
                returned = asyncio.run(returned)
            output = json_values.serialize_output(returned, self._settings["max_output_bytes"]) or b""
            messages = context.encoded_messages()
        # Everything, also `sys.exit()` and Ctrl-C in a callable: it ends the run and not the process.
        except BaseException as error:  # noqa: BLE001
            # The function never got an input that cannot be read.
            state = "exception" if isinstance(error, InputUnreadableError) else "failed"
            failure = captured_text.failure(error)
            output, may_retry = b"", not isinstance(error, NonRetryableError | InputUnreadableError)
        times = [started, time.time()]
        log = captured_text.take_log(self._log, self._flush(), self._settings["max_log_bytes"])
        self._write(Frame([context.run_id, state, failure, times, may_retry, log], output, messages))
        self._current = None
        # After the result, so that the parent stores it meanwhile.
        self._restore(context.run_id)

    def _restore(self, run_id: str) -> None:
        """Restore what a run has changed in the process; end the process if that is not possible."""
        try:
            if found := self._state.restore():
                self._send(Frame([LEFT_BEHIND, run_id, ", ".join(found), True]))
        except StateError as error:
            self._send(Frame([LEFT_BEHIND, run_id, captured_text.error_text(error), False]))
            os._exit(0)

    def _send(self, frame: Frame) -> None:
        self._flush()
        self._write(frame)

    def _flush(self) -> int:
        """Write what the function has printed, and return the size of the log.

        Ends the process if it is a forked copy, or if the function has closed the pipe or the log: another file may
        have its descriptor now.
        """
        for stream in (sys.stdout, sys.stderr):
            # A callable may have closed or replaced the stream.
            with suppress(ValueError, OSError, AttributeError):
                stream.flush()
        try:
            files = os.fstat(self._results), os.fstat(self._log)
        except OSError:
            os._exit(1)
        if os.getpid() != self._pid or not all(map(os.path.samestat, files, self._files)):
            os._exit(1)
        return files[1].st_size

    def _write(self, frame: Frame) -> None:
        with self._sending:
            rest = memoryview(frame.encode())
            try:
                while rest:
                    rest = rest[os.write(self._results, rest) :]
            # The handler of a signal raised an error, and what follows would be taken for the rest of this frame.
            except BaseException:  # noqa: BLE001
                os._exit(1)


def load_function(name: str) -> WorkflowFunction:
    """Import the function `package.module:function`.

    Raises:
        CallableUnavailableError: there is no such module or function, its import failed, or it cannot be called with
            an input and a context. So a mistake in a deployment is found before the first run, and fails none.
    """
    try:
        found = pkgutil.resolve_name(name)
    # An import runs other people's code, which may raise anything, also `sys.exit`.
    except (Exception, SystemExit) as error:
        raise CallableUnavailableError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise CallableUnavailableError(f"{name} is {type(found).__name__} and no function.")
    if inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found):
        raise CallableUnavailableError(f"{name} yields, and a workflow's function returns.")
    try:
        inspect.signature(found).bind(None, None)
    except TypeError as error:
        raise CallableUnavailableError(f"{name} cannot be called with an input and a context.") from error
    except ValueError:  # some functions written in C have no signature
        pass
    return cast("WorkflowFunction", found)


def _die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, also while C code of a function holds the interpreter."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It ended before the kernel knew.
        os._exit(0)


def main() -> NoReturn:
    """Execute runs for the parent whose settings are on the command line."""
    # The traceback of a segmentation fault belongs to the run's log.
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    settings = orjson.loads(sys.argv[1])
    _die_with(settings["parent"])
    Child(settings).work()


if __name__ == "__main__":
    main()
