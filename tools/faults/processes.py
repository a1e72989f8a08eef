"""Finds processes by their parentage, command line or connection, and stops, continues and kills them for certain."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psutil

from faults.catalogue import NotPossibleError
from local_stack.ports import LOOPBACK
from local_stack.waiting import wait_until
from support.attempt_on_server import ON_SERVER

SECONDS = 60.0
ENDED_SECONDS = 300.0
APPLICATION = "create_work_orders.py"


def owner_of(port: int, to_port: int) -> psutil.Process:
    """Return the process that a connection from one local port to another belongs to.

    The first port alone tells too little: another client may have a connection from it to another server.

    Raises:
        AssertionError: there is none.
    """
    wanted = (LOOPBACK, port), (LOOPBACK, to_port)
    for connection in psutil.net_connections("tcp4"):
        if connection.pid and connection.raddr and (tuple(connection.laddr), tuple(connection.raddr)) == wanted:
            return psutil.Process(connection.pid)
    raise AssertionError(f"No process has a connection from port {port} to port {to_port}.")


def java_of(pid: int) -> psutil.Process:
    """Return the JVM of `spark-submit` among the descendants of a process.

    Raises:
        AssertionError: there is none.
        NotPossibleError: the process uses a Spark Connect server.
    """
    if ON_SERVER in psutil.Process(pid).environ():
        raise NotPossibleError("a task that uses a Spark Connect server has no JVM")
    java = _descendant(pid, "java")
    assert java is not None, f"process {pid} has started no JVM"
    return java


def driver_of(pid: int) -> psutil.Process:
    """Return the Python process that runs the application's driver.

    Raises:
        AssertionError: there is none.
    """
    java = java_of(pid)
    driver = _descendant(java.pid, "python")
    assert driver is not None, f"{java} has started no driver"
    return driver


def _descendant(pid: int, name: str) -> psutil.Process | None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if process.name().startswith(name) and any(APPLICATION in word for word in process.cmdline()):
                    return process
    return None


def kill(process: psutil.Process) -> None:
    """Kill a process by SIGKILL, and wait until nothing is left of it.

    A zombie will not do: other threads of it may still be about to end, and its connections with them.

    Raises:
        AssertionError: it had ended before, so that nothing was injected, or it did not die.
    """
    assert is_alive(process), f"{process} had ended before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: not process.is_running(), seconds=SECONDS), f"{process} did not die"


@contextmanager
def stopped(*processes: psutil.Process) -> Iterator[None]:
    """Keep processes stopped by SIGSTOP, and let them continue at the end.

    Raises:
        AssertionError: one did not stop.
    """
    alive = [process for process in processes if is_alive(process)]
    for process in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGSTOP)
    try:
        for process in alive:
            assert wait_until(partial(_is_stopped, process), seconds=SECONDS), f"{process} did not stop"
        yield
    finally:
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)


def pause(seconds: float) -> None:
    """Let a fault last for a time: the one thing here that is no condition to wait for."""
    time.sleep(seconds)


def until_ended(process: psutil.Process) -> None:
    """Wait until a process has ended by itself.

    Raises:
        AssertionError: it still runs.
    """
    assert wait_until(lambda: not is_alive(process), seconds=ENDED_SECONDS), f"{process} did not end"


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs, stopped ones included."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _is_stopped(process: psutil.Process) -> bool:
    """Return whether a process does nothing; one that has ended meanwhile does not either."""
    return not is_alive(process) or process.status() == psutil.STATUS_STOPPED
