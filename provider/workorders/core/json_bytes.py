"""Bytes in JSON that are probably text, and the one escape that jsonb lacks."""

import re
from base64 import b64encode
from typing import Final

NUL_ESCAPE: Final = re.compile(rb"(?<!\\)(?:\\\\)*+\\u0000")
"""A NUL character in JSON text, with the escaped backslashes before it; in linear time."""


def text_or_base64(value: bytes) -> str | dict[str, str]:
    """Return bytes as a string if they are UTF-8 without NUL, which jsonb lacks, and otherwise `{"base64": "..."}`."""
    if 0 not in value:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"base64": b64encode(value).decode()}
