"""The headers of the message or request that a work order came from, whatever its trigger."""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any


def first_values(request: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Return the first value of each named header that the request has as text; case does not count.

    Headers stand in a request as a list of pairs. A value that is null, or bytes that are no text, is left out.
    """
    wanted = {name.lower(): name for name in names}
    found: dict[str, str] = {}
    pairs = request.get("headers")
    for pair in pairs if isinstance(pairs, list) else ():
        if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - a name and a value
            continue
        name, value = pair
        key = wanted.get(name.lower()) if isinstance(name, str) else None
        text = _text(value)
        if key is not None and text is not None:
            found.setdefault(key, text)
    return found


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        try:
            return b64decode(value["base64"]).decode()
        except ValueError:
            return None
    return None
