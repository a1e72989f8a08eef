"""What a function may leave changed in its process: compared and restored between two runs."""

import _locale
import _signal  # type: ignore[import-not-found]
import locale
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from workorders.core.worker.context import LOGGER

_SIGNALS: Final = sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))[:29]
# The functions of `signal` create an enum of each handler and signal, which costs a microsecond.
_getsignal: Final = _signal.getsignal
_sigmask: Final = _signal.pthread_sigmask
_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_NO_TIMERS: Final = [(0.0, 0.0)] * len(_TIMERS)
_LOG_DESCRIPTORS: Final = (1, 2)


class StateError(Exception):
    """A run left something behind that cannot be restored, so its process must be replaced."""


class ProcessState:
    """The state of this process as it is when it is created, after the function was imported.

    Module variables, loggers other than the root, and daemon threads are kept from run to run: a function keeps clients
    there on purpose.
    """

    def __init__(self) -> None:
        self._root = list(logging.root.handlers), logging.root.level
        self._disabled = {name for name, logger in _loggers() if logger.disabled}
        self._logger = logging.getLogger(LOGGER)
        self._handlers = list(map(_getsignal, _SIGNALS))
        self._blocked = _sigmask(signal.SIG_BLOCK, ())
        self._folder = os.open(".", os.O_RDONLY)
        self._folder_name = os.getcwd()  # noqa: PTH109 - as below
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._environ = os.environ
        self._environment: dict[Any, Any] = dict(_content(os.environ))
        self._locale = _locale.setlocale(locale.LC_ALL)
        self._streams = sys.stdin, sys.stdout, sys.stderr
        self._log = os.dup(_LOG_DESCRIPTORS[0])
        self._log_file = os.fstat(self._log).st_ino
        self._threads = frozenset(threading.enumerate())
        self._checks: Final[tuple[tuple[str, Callable[[], bool], Callable[[], object]], ...]] = (
            ("standard streams", self._has_other_streams, self._restore_streams),
            ("logging", self._has_other_logging, self._restore_logging),
            ("signal handlers or timers", self._has_other_signals, self._restore_signals),
            ("working directory", self._has_other_folder, lambda: os.chdir(self._folder)),
            ("umask", lambda: os.umask(self._umask) != self._umask, lambda: None),
            ("environment", self._has_other_environment, self._restore_environment),
            ("locale", self._has_other_locale, lambda: locale.setlocale(locale.LC_ALL, self._locale)),
        )

    def restore(self) -> list[str]:
        """Restore what a run has changed, and return what that was.

        Raises:
            StateError: something cannot be restored.
        """
        found: list[str] = []
        name = ""
        try:
            for name, is_changed, restore in self._checks:
                if is_changed():
                    restore()
                    found.append(name)
        except Exception as error:  # whatever fails, the process is not as it was
            raise StateError(f"{name}: {error}") from error
        if threading.active_count() > len(self._threads) and (names := self._working_threads()):
            raise StateError(f"threads that still work: {', '.join(names)}")
        return found

    def _has_other_streams(self) -> bool:
        if (sys.stdin, sys.stdout, sys.stderr) != self._streams or sys.stdout.closed or sys.stderr.closed:
            return True
        return os.fstat(1).st_ino != self._log_file or os.fstat(2).st_ino != self._log_file

    def _restore_streams(self) -> None:
        sys.stdin, sys.stdout, sys.stderr = self._streams
        for descriptor in _LOG_DESCRIPTORS:
            os.dup2(self._log, descriptor)
        if sys.stdout.closed or sys.stderr.closed:
            raise ValueError("a stream is closed")

    def _has_other_logging(self) -> bool:
        root = logging.root
        return (
            root.handlers != self._root[0]
            or root.level != self._root[1]
            or root.manager.disable > 0
            # What `logging.config` disables is disabled with this one.
            or self._logger.disabled
            or self._logger.level != logging.NOTSET
            or not self._logger.propagate
        )

    def _restore_logging(self) -> None:
        logging.root.handlers[:] = self._root[0]
        logging.root.setLevel(self._root[1])
        logging.disable(logging.NOTSET)
        for name, logger in _loggers():
            logger.disabled = name in self._disabled
        self._logger.setLevel(logging.NOTSET)
        self._logger.propagate = True

    def _has_other_signals(self) -> bool:
        return (
            list(map(_getsignal, _SIGNALS)) != self._handlers
            or list(map(signal.getitimer, _TIMERS)) != _NO_TIMERS
            or _sigmask(signal.SIG_BLOCK, ()) != self._blocked
        )

    def _restore_signals(self) -> None:
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        for number, handler in zip(_SIGNALS, self._handlers, strict=True):
            if _getsignal(number) != handler:
                signal.signal(number, handler)
        _sigmask(signal.SIG_SETMASK, self._blocked)

    def _has_other_folder(self) -> bool:
        try:
            return os.getcwd() != self._folder_name  # noqa: PTH109 - between two runs, a Path is slow
        except OSError:
            return True

    def _has_other_environment(self) -> bool:
        return os.environ is not self._environ or _content(os.environ) != self._environment

    def _restore_environment(self) -> None:
        os.environ = self._environ  # noqa: B003 - a function may have replaced it
        for name in _content(os.environ).keys() - self._environment.keys():
            os.unsetenv(name)
        for name, value in self._environment.items():
            os.putenv(name, value)
        _content(os.environ).clear()
        _content(os.environ).update(self._environment)

    def _has_other_locale(self) -> bool:
        return _locale.setlocale(locale.LC_ALL) != self._locale

    def _working_threads(self) -> list[str]:
        return [thread.name for thread in threading.enumerate() if not thread.daemon and thread not in self._threads]


def _loggers() -> Iterator[tuple[str, logging.Logger]]:
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger):
            yield name, logger


def _content(environment: Any) -> dict[Any, Any]:
    """Return the bytes of an environment, whose comparison is a hundred times as fast as that of its texts."""
    content: dict[Any, Any] = environment._data
    return content
