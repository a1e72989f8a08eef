"""Text that came from outside, for people: what a terminal or a page would obey becomes visible."""

import re
import unicodedata
from typing import Final

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that a terminal obeys, or that hide or turn around the text next to them."""


def safe(text: str) -> str:
    r"""Return text with everything that a terminal would obey as `\u....`, apart from line ends.

    Messages come from strangers. Inside JSON this is another spelling of the same string.
    """
    return "".join(_escape(char) if char != "\n" and unicodedata.category(char) in _UNSAFE else char for char in text)


def hexdump(data: bytes, *, most: int) -> str:
    """Return the beginning of raw bytes: place, hexadecimal, and what is printable ASCII."""
    width = 16
    lines = []
    for place in range(0, min(len(data), most), width):
        part = data[place : min(place + width, most)]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)  # noqa: PLR2004 - printable ASCII
        lines.append(f"{place:08x}  {part.hex(' '):<{3 * width}} {text}")
    return "\n".join(lines)


def _escape(char: str) -> str:
    return re.sub("....", r"\\u\g<0>", char.encode("utf-16-be", "surrogatepass").hex())
