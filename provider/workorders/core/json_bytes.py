"""Bytes in JSON that are probably text, and what Postgres lacks of text."""

import re
from base64 import b64decode, b64encode
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


def bytes_of(value: str | dict[str, str] | None) -> bytes | None:
    """Return the bytes that `text_or_base64` was given."""
    if isinstance(value, dict):
        return b64decode(value["base64"])
    return None if value is None else value.encode()


def plain(text: str) -> str:
    """Return a text that UTF-8 and Postgres can hold: halves of surrogate pairs and NUL characters are escaped."""
    return str.encode(text, "utf-8", "backslashreplace").decode().replace("\0", "\\0")
