"""The bytes between a process of callables and its parent: frames of one JSON header and two blobs.

No pickle: what comes out of a process that runs other people's code must not be able to run code here. Bodies, outputs,
and published messages are sent after the header as they are.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

import orjson

from workorders.core.items import Message
from workorders.core.json_bytes import bytes_of

PIECE: Final = 1 << 16
"""Bytes that are read at once."""

TOKEN: Final = Struct(">I")
"""The token of a run: a number that its frame has, too."""

_LENGTHS = Struct(">III")
_NO_LIMITS: Final = (2**32, 2**32, 2**32)


class Frame(NamedTuple):
    """One message."""

    header: list[Any]
    first: bytes = b""
    second: bytes = b""

    def encode(self) -> bytes:
        """Return the frame's bytes."""
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
        """Take a piece and yield the frames that are whole now; raise a ValueError if they are none, or too large."""
        self._buffer += piece
        position = 0
        view = memoryview(self._buffer)
        try:
            while len(view) - position >= _LENGTHS.size:
                header, first, second = lengths = _LENGTHS.unpack_from(view, position)
                most = self._limits
                if header > most[0] or first > most[1] or second > most[2]:
                    raise ValueError(f"parts of {lengths} bytes, of at most {most}")
                begin = position + _LENGTHS.size
                middle = begin + header
                end = middle + first + second
                if end > len(view):
                    break
                yield Frame(
                    orjson.loads(view[begin:middle]),
                    bytes(view[middle : middle + first]),
                    bytes(view[middle + first : end]),
                )
                position = end
        finally:
            view.release()
            del self._buffer[:position]


def message_bytes(message: Message) -> bytes:
    """Return a message as bytes for `decode_messages`, which takes several one after the other."""
    header = [message.to, message.key is not None, message.value is not None, message.json_headers]
    header += [message.partition, message.timestamp_ms, message.event_id]
    return Frame(header, message.key or b"", message.value or b"").encode()


def decode_messages(encoded: bytes) -> tuple[Message, ...]:
    """Return messages from what `message_bytes` returned for each."""
    return tuple(map(_message, FrameReader().feed(encoded))) if encoded else ()


def _message(frame: Frame) -> Message:
    to, has_key, has_value, headers, *rest = frame.header
    key, value = frame.first if has_key else None, frame.second if has_value else None
    return Message(to, key, value, tuple((name, bytes_of(text)) for name, text in headers), *rest)
