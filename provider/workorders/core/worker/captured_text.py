"""Texts that other people's code created, in a form that every reader can hold, and bounded on their way.

The output of a process is captured in an unnamed file instead of a pipe. So it can be read after any end of the
process, and the parent need not read it meanwhile.
"""

import codecs
import fcntl
import os
import tempfile
import traceback
from typing import Final

from workorders.core.json_bytes import plain

GAP: Final = "\0"
"""In place of what was left out of a text, until the text is masked. No other text here contains it."""
MAX_SENT_CHARACTERS: Final = 256 * 1024
"""Of a longer error or traceback a process sends the beginning and the end."""
MAX_LOG_BYTES: Final = 64 * 1024 * 1024
"""If a run writes more than this, its earlier output is deleted, so that it cannot fill the disk."""
_HALF: Final = MAX_SENT_CHARACTERS // 2
_CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))


def cut(text: str) -> str:
    """Return a text as a process sends it; its parent masks it, and only then cuts it to what is stored."""
    return plain(text) if len(text) <= MAX_SENT_CHARACTERS else plain(text[:_HALF]) + GAP + plain(text[-_HALF:])


def failure(error: BaseException) -> tuple[str, str, str]:
    """Return type, text, and traceback of an error as its process sends them."""
    return _type_name(error), error_text(error), _traceback_text(error)


def error_text(error: BaseException) -> str:
    """Return the text of an error, or a replacement if the text cannot be created."""
    try:
        return cut(str(error))
    except BaseException as another:  # noqa: BLE001 - the text is created by other people's code
        return f"(its text cannot be created: {_type_name(another)})"


def _type_name(error: BaseException) -> str:
    return plain(type(error).__qualname__)


def _traceback_text(error: BaseException) -> str:
    """Return the traceback of an error below the frame that caught it."""
    own_frame = error.__traceback__
    try:
        return cut("".join(traceback.format_exception(type(error), error, own_frame.tb_next if own_frame else None)))
    except BaseException:  # noqa: BLE001 - the text of the error is created by other people's code
        return f"{_type_name(error)}: {error_text(error)}\n"


def printable(content: bytes) -> str:
    """Return bytes as text that Postgres can hold: neither bad UTF-8 nor NUL."""
    return content.decode("utf-8", "backslashreplace").replace("\0", "\\0")


def create_log() -> int:
    """Return the descriptor of a new file to which every process appends."""
    descriptor, path = tempfile.mkstemp(prefix="workorders-log-")
    os.unlink(path)  # noqa: PTH108 - by the path that mkstemp gave
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    return descriptor


def take_log(descriptor: int, size: int, max_bytes: int) -> str:
    """Return the content of the file, and empty the file; of a longer one than `max_bytes`, the beginning and the end.

    The halves of characters next to a gap are left out, also at the beginning: `bound_log` may have emptied the file.
    """
    if not size:
        return ""
    half = size if size <= max_bytes else max_bytes // 2
    beginning = os.pread(descriptor, half, 0).lstrip(_CONTINUATION_BYTES)
    if half == size:
        text = printable(beginning)
    else:
        decoded = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(beginning).replace("\0", "\\0")
        text = decoded + GAP + printable(os.pread(descriptor, half, size - half).lstrip(_CONTINUATION_BYTES))
    os.ftruncate(descriptor, 0)
    return text


def bound_log(descriptor: int) -> bool:
    """Empty the file if it has become far too long, and return whether it was."""
    is_too_long = os.fstat(descriptor).st_size > MAX_LOG_BYTES
    if is_too_long:
        os.ftruncate(descriptor, 0)
    return is_too_long
