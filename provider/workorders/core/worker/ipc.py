"""The bytes between a process of callables and its parent: frames of one JSON header and two blobs.

No pickle: what comes out of a process that runs other people's code must not be able to run code here. Bodies, outputs,
and published messages are sent after the header as they are.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

import orjson

PIECE: Final = 1 << 16
"""Bytes that are read at once."""

TOKEN: Final = Struct(">I")
"""The token of a run: a number that its frame has, too."""

_LENGTHS = Struct(">III")
_NO_LIMITS: Final = (2**32, 2**32, 2**32)


class FrameError(ValueError):
    """Bytes that are no frame, or a frame that is larger than any of its sender."""


class Frame(NamedTuple):
    """One message."""

    header: list[Any]
    first: bytes = b""
    second: bytes = b""

    def encode(self) -> bytes:
        """Return the frame's bytes.

        Raises:
            TypeError: the header holds what JSON does not.
        """
        header = orjson.dumps(self.header, default=list)
        lengths = _LENGTHS.pack(len(header), len(self.first), len(self.second))
        return b"".join((lengths, header, self.first, self.second))


class FrameReader:
    """Puts frames together from pieces of a stream."""

    def __init__(self, limits: tuple[int, int, int] = _NO_LIMITS) -> None:
        self._buffer = bytearray()
        self._limits = limits

    @property
    def is_partial(self) -> bool:
        """Whether a frame has arrived in part."""
        return len(self._buffer) > 0

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """Take a piece and yield the frames that are whole now.

        Raises:
            FrameError: the bytes are no frame, or exceed the limits.
        """
        self._buffer += piece
        position = 0
        view = memoryview(self._buffer)
        try:
            while len(view) - position >= _LENGTHS.size:
                header, first, second = lengths = _LENGTHS.unpack_from(view, position)
                most = self._limits
                if header > most[0] or first > most[1] or second > most[2]:
                    raise FrameError(f"parts of {lengths} bytes, of at most {most}")
                begin = position + _LENGTHS.size
                middle = begin + header
                end = middle + first + second
                if end > len(view):
                    break
                yield Frame(
                    _header(view[begin:middle]),
                    bytes(view[middle : middle + first]),
                    bytes(view[middle + first : end]),
                )
                position = end
        finally:
            view.release()
            del self._buffer[:position]


def _header(content: memoryview) -> list[Any]:
    try:
        header = orjson.loads(content)
    except ValueError as error:
        raise FrameError("a header that is no JSON") from error
    if not isinstance(header, list):
        raise FrameError("a header that is no list")
    return header
