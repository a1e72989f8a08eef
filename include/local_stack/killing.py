"""Kills a process with all its descendants, like a loss of power: none can fork, and none remains."""

import contextlib
import os
import signal
import time
from collections.abc import Collection

import psutil

from local_stack.waiting import wait_until

_FREEZE_SECONDS = 5.0
_POLL_SECONDS = 0.005
_STILL = {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


def send(pid: int, number: int) -> None:
    """Send a signal to a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_family(pid: int, *, seconds: float) -> None:
    """Kill a process and all its descendants by SIGKILL and wait until none of them holds memory or files any more.

    A signal sent is no death: a process in the middle of an fsync ends when the disk has answered, and until then
    a Postgres that is started on the same folder refuses with "pre-existing shared memory block is still in use".

    Raises:
        TimeoutError: Some of them are there still.
    """
    try:
        root = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    family = _frozen(root)
    for process in family:
        send(process.pid, signal.SIGKILL)
    if not wait_until(lambda: not any(map(_is_there, family)), seconds=seconds):
        left = ", ".join(str(process.pid) for process in family if _is_there(process))
        raise TimeoutError(f"after {seconds:g} s these of its processes are still there: {left}")


def _frozen(root: psutil.Process) -> Collection[psutil.Process]:
    """Stop a process and its descendants one after another until a search finds no new one; return them.

    A process that SIGSTOP has not reached may still fork, so a search counts only when all that it found were still
    before it. One that is not still in time (it waits for its disk, and cannot fork there) is taken as it is.
    """
    family: set[psutil.Process] = set()
    deadline = time.monotonic() + _FREEZE_SECONDS
    while True:
        still = all(map(_is_still, family))
        found = {root, *_descendants(root)} - family
        if not found and (still or time.monotonic() > deadline):
            return family
        for process in found:
            send(process.pid, signal.SIGSTOP)
        family |= found
        time.sleep(_POLL_SECONDS)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_still(process: psutil.Process) -> bool:
    try:
        return process.status() in _STILL
    except psutil.NoSuchProcess:
        return True


def _is_there(process: psutil.Process) -> bool:
    """Return whether a process holds anything; of a zombie only the exit code is left."""
    try:
        return process.is_running() and process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.NoSuchProcess:
        return False
