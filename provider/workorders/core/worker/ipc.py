"""The bytes between a process of callables and its parent: frames of one JSON header and two blobs.

No pickle: what comes out of a process that runs other people's code must not be able to run code here. Bodies and
outputs are JSON text already, and are sent after the header as they are.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

import orjson

PIECE: Final = 1 << 16
"""Bytes that are read at once."""

_LENGTHS = Struct(">III")


class Frame(NamedTuple):
    """One message."""

    header: list[Any]
    first: bytes = b""
    second: bytes = b""

    def encode(self) -> bytes:
        """Return the frame's bytes."""
        header = orjson.dumps(self.header)
        lengths = _LENGTHS.pack(len(header), len(self.first), len(self.second))
        return b"".join((lengths, header, self.first, self.second))


class FrameReader:
    """Puts frames together from pieces of a stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def is_partial(self) -> bool:
        """Whether a frame has arrived in part."""
        return len(self._buffer) > 0

    def feed(self, piece: bytes) -> Iterator[Frame]:
        """Take a piece and yield the frames that are whole now."""
        self._buffer += piece
        position = 0
        view = memoryview(self._buffer)
        try:
            while len(view) - position >= _LENGTHS.size:
                header, first, second = _LENGTHS.unpack_from(view, position)
                begin = position + _LENGTHS.size
                end = begin + header + first + second
                if end > len(view):
                    break
                middle = begin + header
                yield Frame(
                    orjson.loads(view[begin:middle]),
                    bytes(view[middle : middle + first]),
                    bytes(view[middle + first : end]),
                )
                position = end
        finally:
            view.release()
            del self._buffer[:position]
