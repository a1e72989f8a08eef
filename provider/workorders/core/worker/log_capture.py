"""What a run writes to standard output and standard error: a file without a name that a process and its parent share.

A file and not a pipe: whatever ends the process, the parent can still read the last words of the run, and nobody needs
to read along meanwhile.
"""

import fcntl
import os
import tempfile
from collections.abc import Callable
from typing import Final, NamedTuple

MOST_BYTES: Final = 64 * 1024 * 1024
"""A run that has written more than this loses what came before: a chatty one must not fill the disk."""
LEFT_OUT: Final = "\n... the middle of this log was left out ...\n"


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


def compose_log(
    captured: Captured, traceback: str, *, limit: int, mask: Callable[[str], str], longest_secret: int
) -> tuple[str, bool]:
    """Return a run's log, and whether its middle was left out.

    Args:
        captured: what the run wrote, with `longest_secret` more bytes on each side of what was left out.
        traceback: what stands at the end; may be empty.
        limit: most bytes of the whole.
        mask: takes the known secrets out of a text.
        longest_secret: length of the longest of them, in bytes.
    """
    if captured.end is None:
        log, end, cut = mask(captured.text), "", False
    else:
        # What stands beside the gap may be half a secret, which nobody would know as one.
        log = _without_end(mask(captured.text), longest_secret)
        end, cut = mask(captured.end)[longest_secret:], True
    behind = _new_line(end or log) + mask(traceback) if traceback else ""
    whole = (log + LEFT_OUT if cut else log) + end + behind
    if len(whole.encode()) <= limit:
        return whole, cut
    return _without_middle(whole, limit), True


def _without_end(text: str, length: int) -> str:
    return text[: len(text) - length] if length else text


def _new_line(text: str) -> str:
    return "" if not text or text.endswith("\n") else "\n"


def _without_middle(text: str, limit: int) -> str:
    content = text.encode()
    half = max(limit - len(LEFT_OUT), 0) // 2
    if half == 0:
        return ""
    return content[:half].decode(errors="ignore") + LEFT_OUT + content[-half:].decode(errors="ignore")
