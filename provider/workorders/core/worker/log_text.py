"""The text of a run's log: without secrets, within its limit, its traceback last."""

from collections.abc import Callable
from typing import Final

from workorders.core.worker.log_capture import Captured

LEFT_OUT: Final = "\n... the middle of this log was left out ...\n"


def compose(
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
