"""Captures standard output and standard error of a process in an unnamed file.

It is a file instead of a pipe. So the parent can read the output of a run after any end of the process, and it need not
read meanwhile.
"""

import fcntl
import os
import tempfile
from typing import Final, NamedTuple

from workorders.core.worker.secret_masking import Mask

MAX_BYTES: Final = 64 * 1024 * 1024
"""If a run writes more than this, its earlier output is deleted, so that it cannot fill the disk."""
LEFT_OUT: Final = "\n... the middle of this log was left out ...\n"


def create() -> int:
    """Return the descriptor of a new file to which every process appends."""
    descriptor, path = tempfile.mkstemp(prefix="workorders-log-")
    os.unlink(path)  # noqa: PTH108 - by the path that mkstemp gave
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    return descriptor


class Captured(NamedTuple):
    """What was written: all of it, or its beginning and its end."""

    text: str = ""
    end: str | None = None
    """The last part, if the middle was left out."""


def take(descriptor: int, max_bytes: int) -> Captured:
    """Read at most `max_bytes` of the file, return them, and empty the file."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        return Captured()
    if size <= max_bytes:
        captured = Captured(printable(os.pread(descriptor, size, 0)))
    else:
        half = max_bytes // 2
        end = printable(os.pread(descriptor, half, size - half))
        captured = Captured(printable(os.pread(descriptor, half, 0)), end)
    os.ftruncate(descriptor, 0)
    return captured


def bound(descriptor: int) -> None:
    """Empty the file if it has become far too long."""
    if os.fstat(descriptor).st_size > MAX_BYTES:
        os.ftruncate(descriptor, 0)


def printable(content: bytes) -> str:
    """Return bytes as text that Postgres can hold: neither bad UTF-8 nor NUL."""
    return content.decode("utf-8", "backslashreplace").replace("\0", "\\0")


def compose_log(captured: Captured, traceback: str, *, limit: int, mask: Mask) -> tuple[str, bool]:
    """Return a run's log, and whether its middle was left out.

    Args:
        captured: what the run wrote, with `mask.max_secret_bytes` more bytes on each side of what was left out.
        traceback: the end of the log; may be empty.
        limit: maximum bytes of the log.
        mask: takes the known secrets out of a text.
    """
    if captured.end is None:
        log, end, cut = mask(captured.text), "", False
    else:
        # The text next to the gap may be half a secret, which the mask does not recognize.
        text, margin = mask(captured.text), mask.max_secret_bytes
        log, end, cut = text[: max(len(text) - margin, 0)], mask(captured.end)[margin:], True
    whole = (log + LEFT_OUT if cut else log) + end
    if traceback:
        whole += ("" if not whole or whole.endswith("\n") else "\n") + mask(traceback)
    if len(whole.encode()) <= limit:
        return whole, cut
    return _without_middle(whole, limit), True


def _without_middle(text: str, limit: int) -> str:
    content = text.encode()
    half = max(limit - len(LEFT_OUT), 0) // 2
    if half == 0:
        return ""
    return content[:half].decode(errors="ignore") + LEFT_OUT + content[-half:].decode(errors="ignore")
