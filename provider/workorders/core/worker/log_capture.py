"""Captures standard output and standard error of a process in an unnamed file.

It is a file instead of a pipe. So the parent can read the output of a run after any end of the process, and it need not
read meanwhile.
"""

import fcntl
import os
import tempfile
from typing import Final

from workorders.core.worker.captured_text import NOTHING, Captured, printable, printable_parts
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


def take(descriptor: int, max_bytes: int, *, was_emptied: bool = False) -> Captured:
    """Read at most `max_bytes` of the file, return them, and empty the file.

    Args:
        descriptor: the file.
        max_bytes: of a longer file the beginning and the end are read.
        was_emptied: whether `bound` has emptied the file, so that its beginning is what was written after any byte.
    """
    size = os.fstat(descriptor).st_size
    if not size and not was_emptied:
        return NOTHING
    if size <= max_bytes and not was_emptied:
        captured = Captured(printable(os.pread(descriptor, size, 0)))
    else:
        half = max_bytes // 2
        beginning = b"" if was_emptied else os.pread(descriptor, half, 0)
        captured = printable_parts(beginning, os.pread(descriptor, half, max(size - half, 0)))
    if size:
        os.ftruncate(descriptor, 0)
    return captured


def bound(descriptor: int) -> bool:
    """Empty the file if it has become far too long, and return whether it was."""
    is_too_long = os.fstat(descriptor).st_size > MAX_BYTES
    if is_too_long:
        os.ftruncate(descriptor, 0)
    return is_too_long


def masked(captured: Captured, mask: Mask) -> tuple[str, bool]:
    """Return a text without the known secrets, and whether its middle was left out.

    The text next to the gap may be a part of a secret, which the mask does not recognize. So it is left out as well.
    """
    if captured.end is None:
        return mask(captured.text), False
    text, margin = mask(captured.text), mask.max_secret_bytes
    return text[: max(len(text) - margin, 0)] + LEFT_OUT + mask(captured.end)[margin:], True


def compose_log(captured: Captured, traceback: str, *, limit: int, mask: Mask) -> tuple[str, bool]:
    """Return a run's log, and whether its middle was left out.

    Args:
        captured: what the run wrote, with `mask.max_secret_bytes` more bytes on each side of what was left out.
        traceback: the end of the log, without secrets; may be empty.
        limit: maximum bytes of the log.
        mask: takes the known secrets out of a text.
    """
    log, is_cut = masked(captured, mask)
    if traceback:
        log += ("" if not log or log.endswith("\n") else "\n") + traceback
    return (log, is_cut) if len(log.encode()) <= limit else (_without_middle(log, limit), True)


def _without_middle(text: str, limit: int) -> str:
    content = text.encode()
    half = max(limit - len(LEFT_OUT), 0) // 2
    if half == 0:
        return ""
    return content[:half].decode(errors="ignore") + LEFT_OUT + content[-half:].decode(errors="ignore")
