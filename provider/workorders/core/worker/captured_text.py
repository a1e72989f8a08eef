"""Texts that other people's code created, in a form that every reader can hold, and bounded on their way."""

import codecs
from typing import Final, NamedTuple

MAX_SENT_CHARACTERS: Final = 256 * 1024
"""Of a longer error or traceback a process sends the beginning and the end."""
_HALF: Final = MAX_SENT_CHARACTERS // 2
_CONTINUATION_BYTES: Final = bytes(range(0x80, 0xC0))


class Captured(NamedTuple):
    """A text: all of it, or its beginning and its end."""

    text: str = ""
    end: str | None = None
    """The last part, if the middle was left out."""


NOTHING: Final = Captured()


def plain(text: str) -> str:
    """Return a text that UTF-8 and Postgres can hold: halves of surrogate pairs and NUL characters are escaped."""
    return str.encode(text, "utf-8", "backslashreplace").decode().replace("\0", "\\0")


def cut(text: str) -> Captured:
    """Return a text as a process sends it; its parent masks it, and only then cuts it to what is stored."""
    if len(text) <= MAX_SENT_CHARACTERS:
        return Captured(plain(text))
    return Captured(plain(text[:_HALF]), plain(text[-_HALF:]))


def printable(content: bytes) -> str:
    """Return bytes as text that Postgres can hold: neither bad UTF-8 nor NUL."""
    return content.decode("utf-8", "backslashreplace").replace("\0", "\\0")


def printable_parts(beginning: bytes, end: bytes) -> Captured:
    """Return a text whose middle was left out, without the halves of characters next to the gap."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return Captured(decoder.decode(beginning).replace("\0", "\\0"), printable(end.lstrip(_CONTINUATION_BYTES)))
