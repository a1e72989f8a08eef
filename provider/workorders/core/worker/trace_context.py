"""The trace of a run, in the format of W3C's trace context: https://www.w3.org/TR/trace-context/."""

import re
import secrets
from typing import Final

HEADER: Final = "traceparent"

_FORM: Final = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})"
)
_FIRST_VERSION: Final = "00"
_NO_VERSION: Final = "ff"
_NOT_SAMPLED: Final = "00"


def child_traceparent(traceparent: str | None) -> str:
    """Return the traceparent of a run: the sender's trace with a new span, or a new trace if the sender named none.

    A header of a later version is child_traceparent as far as version 00 goes, as the recommendation has it.
    """
    found = _parts(traceparent) if traceparent else None
    if found is None:
        return f"{_FIRST_VERSION}-{_random(16)}-{_random(8)}-{_NOT_SAMPLED}"
    return f"{_FIRST_VERSION}-{found['trace']}-{_random(8)}-{found['flags']}"


def _parts(traceparent: str) -> dict[str, str] | None:
    text = traceparent.strip()
    match = _FORM.match(text)
    if match is None or match["version"] == _NO_VERSION:
        return None
    # Version 00 ends here; a later one may add fields behind another dash.
    rest = text[match.end() :]
    if rest and (match["version"] == _FIRST_VERSION or not rest.startswith("-")):
        return None
    if not int(match["trace"], 16) or not int(match["span"], 16):
        return None
    return match.groupdict()


def _random(length: int) -> str:
    """Return this number of random bytes in hexadecimal, never all zero, because that would mean none."""
    while not int(drawn := secrets.token_hex(length), 16):
        pass
    return drawn
