"""What a function may leave changed in its process: compared and restored between two runs."""

import _locale
import _signal  # type: ignore[import-not-found]
import gc
import locale
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final
from weakref import WeakSet

from workorders.core.worker.context import LOGGER

_SIGNALS: Final = sorted(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))[:29]
# The functions of `signal` create an enum of each handler and signal, which costs a microsecond.
_getsignal: Final = _signal.getsignal
_sigmask: Final = _signal.pthread_sigmask
_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_OPEN: Final = (2, 3)
"""States of a connection in libpq: in a transaction, and in a failed one."""


class StateError(Exception):
    """A run left something behind that cannot be restored, so its process must be replaced."""


class ProcessState:
    """The state of this process as it is when it is created, after the function was imported.

    Module variables, loggers other than the root, and daemon threads are kept from run to run: a function keeps clients
    there on purpose.
    """

    def __init__(self) -> None:
        self._disabled = {name for name, logger in _loggers() if logger.disabled}
        self._logger = logging.getLogger(LOGGER)
        self._folder = os.open(".", os.O_RDONLY)
        self._umask = os.umask(0o077)
        self._environ, self._environb = os.environ, os.environb
        self._log = os.dup(1)
        self._threads = frozenset(threading.enumerate())
        connections = _Connections()
        parts: tuple[tuple[str, Callable[[], Any], Callable[[Any], object]], ...] = (
            ("standard streams", _streams, self._restore_streams),
            ("logging", self._logging, self._restore_logging),
            ("signal handlers or timers", _signals, _restore_signals),
            ("working directory", _folder, lambda _: os.chdir(self._folder)),
            # It is restored when it is read.
            ("umask", lambda: os.umask(self._umask), lambda _: None),
            ("environment", lambda: (id(os.environ), dict(_content(os.environ))), self._restore_environment),
            ("locale", lambda: _locale.setlocale(locale.LC_ALL), lambda was: locale.setlocale(locale.LC_ALL, was)),
        )
        os.umask(self._umask)
        self._parts: Final = [(name, read, read(), restore) for name, read, restore in parts]
        # The import of the function may have left one open, too.
        self._parts.append(
            ("open transactions", connections.find_in_transaction, [], lambda _: connections.roll_back())
        )

    def restore(self) -> list[str]:
        """Restore what a run has changed, and return what that was."""
        found: list[str] = []
        name = ""
        try:
            for name, read, was, restore in self._parts:
                if read() != was:
                    restore(was)
                    found.append(name)
        except Exception as error:  # whatever fails, the process is not as it was
            raise StateError(f"{name}: {error}") from error
        if threading.active_count() > len(self._threads) and (names := self._working_threads()):
            raise StateError(f"threads that still work: {', '.join(names)}")
        return found

    def _restore_streams(self, was: tuple[Any, ...]) -> None:
        sys.stdin, sys.stdout, sys.stderr, *_ = was
        for descriptor in (1, 2):
            os.dup2(self._log, descriptor)
        if sys.stdout.closed or sys.stderr.closed:
            raise ValueError("a stream is closed")

    def _logging(self) -> tuple[Any, ...]:
        root, logger = logging.root, self._logger
        # What `logging.config` disables is disabled with this logger.
        return root.handlers[:], root.level, root.manager.disable, logger.disabled, logger.level, logger.propagate

    def _restore_logging(self, was: tuple[Any, ...]) -> None:
        logging.root.handlers[:], level, disable, *_ = was
        logging.root.setLevel(level)
        logging.disable(disable)
        for name, logger in _loggers():
            logger.disabled = name in self._disabled
        self._logger.setLevel(logging.NOTSET)
        self._logger.propagate = True

    def _restore_environment(self, was: tuple[int, dict[Any, Any]]) -> None:
        os.environ = self._environ  # noqa: B003 - a function may have replaced it
        for name in self._environb.keys() - was[1].keys():
            del self._environb[name]
        self._environb.update(was[1])

    def _working_threads(self) -> list[str]:
        return [thread.name for thread in threading.enumerate() if not thread.daemon and thread not in self._threads]


class _Connections:
    """The connections of psycopg that the thread of the runs has opened; others may be in use between two runs."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._opened: WeakSet[Any] | None = None

    def find_in_transaction(self) -> list[Any]:
        """Return those with an open transaction."""
        # Most functions need no psycopg, and its import takes as long as the start of a process.
        if self._opened is None and "psycopg" in sys.modules:
            self._opened = self._watch()
        return [connection for connection in self._opened or () if connection.pgconn.transaction_status in _OPEN]

    def roll_back(self) -> None:
        """End these transactions."""
        import psycopg  # noqa: PLC0415 - as above

        # Half of another thread's transaction would be rolled back, and the thread would commit the rest.
        if threading.active_count() > 1:
            raise ValueError("another thread may use one")
        for connection in self.find_in_transaction():
            if isinstance(connection, psycopg.Connection):
                connection.rollback()
            else:
                # Its event loop has ended with the run, so nothing can use it.
                connection.pgconn.finish()

    def _watch(self) -> WeakSet[Any]:
        import psycopg  # noqa: PLC0415 - as above

        # Any thread may have opened one of these.
        found = (found for found in gc.get_objects() if issubclass(type(found), psycopg.BaseConnection))
        opened: WeakSet[Any] = WeakSet(found)
        initialize = psycopg.BaseConnection.__init__

        def watched(connection: psycopg.BaseConnection[Any], *arguments: Any, **named: Any) -> None:
            initialize(connection, *arguments, **named)
            if threading.get_ident() == self._thread:
                opened.add(connection)

        psycopg.BaseConnection.__init__ = watched  # type: ignore[assignment,method-assign]
        return opened


def _streams() -> tuple[Any, ...]:
    closed = sys.stdout.closed or sys.stderr.closed
    return sys.stdin, sys.stdout, sys.stderr, closed, os.fstat(1).st_ino, os.fstat(2).st_ino


def _signals() -> tuple[Any, ...]:
    return list(map(_getsignal, _SIGNALS)), list(map(signal.getitimer, _TIMERS)), _sigmask(signal.SIG_BLOCK, ())


def _restore_signals(was: tuple[Any, ...]) -> None:
    handlers, _, blocked = was
    for timer in _TIMERS:
        signal.setitimer(timer, 0)
    for number, handler in zip(_SIGNALS, handlers, strict=True):
        if _getsignal(number) != handler:
            signal.signal(number, handler)
    _sigmask(signal.SIG_SETMASK, blocked)


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - between two runs, a Path is slow
    except OSError:  # it was deleted
        return None


def _loggers() -> Iterator[tuple[str, logging.Logger]]:
    for name, logger in logging.root.manager.loggerDict.items():
        if isinstance(logger, logging.Logger):
            yield name, logger


def _content(environment: Any) -> dict[Any, Any]:
    """Return the bytes of an environment, whose comparison is a hundred times as fast as that of its texts."""
    content: dict[Any, Any] = environment._data
    return content
