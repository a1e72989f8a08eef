"""What a run writes to standard output and standard error: a file without a name that a process and its parent share.

A file and not a pipe: whatever ends the process, the parent can still read the last words of the run, and nobody needs
to read along meanwhile.
"""

import fcntl
import os
import tempfile
from typing import Final, NamedTuple

MOST_BYTES: Final = 64 * 1024 * 1024
"""A run that has written more than this loses what came before: a chatty one must not fill the disk."""


def create() -> int:
    """Return the descriptor of a new file to which everything is appended, whoever writes."""
    descriptor, path = tempfile.mkstemp(prefix="workorders-log-")
    os.unlink(path)  # noqa: PTH108 - by the path that mkstemp gave
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    return descriptor


class Captured(NamedTuple):
    """What was written: all of it, or its beginning and its end."""

    text: str = ""
    end: str | None = None
    """The last part, when what lies between was left out."""


def take(descriptor: int, most_bytes: int) -> Captured:
    """Return what is in the file, of which no more than so many bytes are read; the file is empty after it."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        return Captured()
    if size <= most_bytes:
        captured = Captured(printable(os.pread(descriptor, size, 0)))
    else:
        half = most_bytes // 2
        end = printable(os.pread(descriptor, half, size - half))
        captured = Captured(printable(os.pread(descriptor, half, 0)), end)
    os.ftruncate(descriptor, 0)
    return captured


def bound(descriptor: int) -> None:
    """Empty the file if it has become far too long."""
    if os.fstat(descriptor).st_size > MOST_BYTES:
        os.ftruncate(descriptor, 0)


def printable(content: bytes) -> str:
    """Return bytes as text that Postgres can hold: neither bad UTF-8 nor NUL."""
    return content.decode("utf-8", "backslashreplace").replace("\0", "\\0")
