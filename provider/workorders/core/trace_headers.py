"""The headers of an event as its request contains them, and the trace that one of them continues."""

import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

TRACEPARENT: Final = "traceparent"
#: https://www.w3.org/TR/trace-context/; a later version may add fields after the flags.
_TRACE: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})"
    r"(?P<more>-.*)?",
    re.DOTALL,
)


def child_traceparent(traceparent: str | None) -> str:
    """Return the traceparent of a run: the sender's trace with a new span, or a new trace if the sender named none.

    A header of a later version is read like one of version 00, as the recommendation has it.
    """
    match = _TRACE.fullmatch((traceparent or "").strip())
    if match is None or (match["version"] == "00" and match["more"]):
        return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"
    return f"00-{match['trace']}-{secrets.token_hex(8)}-{match['flags']}"


def first_header_values(request: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return the first value of each named header that the request has as text; case does not count.

    A request contains headers as a list of pairs. A value that is null, or bytes that are no text, is left out.
    """
    wanted = {name.lower(): name for name in names}
    found: dict[str, str] = {}
    pairs = request.get("headers")
    for pair in pairs if isinstance(pairs, list) else ():
        match pair:
            case [str(name), str(value)] if name.lower() in wanted:
                found.setdefault(wanted[name.lower()], value)
    return found
