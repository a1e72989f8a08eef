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
from workorders.core.worker.exceptions import PublishLimitError

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
        """Take a piece and yield the frames that are whole now; raise a `FrameError` if they are none, or too large."""
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


class PublishedMessages:
    """The messages of one run, no more than its workflow allows."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._count = 0
        self._bytes = 0
        self._encoded: list[bytes] = []

    def add(self, message: Message) -> None:
        """Add a message."""
        encoded = _encode(message)
        self._count += 1
        self._bytes += len(encoded)
        self._require_within_limits()
        self._encoded.append(encoded)

    def encoded(self) -> bytes:
        """Return all messages as bytes for `decode_messages`."""
        self._require_within_limits()
        return b"".join(self._encoded)

    def _require_within_limits(self) -> None:
        if self._count > self._max_messages or self._bytes > self._max_bytes:
            raise PublishLimitError(
                f"The run published {self._count} messages of {self._bytes} bytes, so it failed and none is sent. Its "
                f"workflow allows {self._max_messages} (max_published_messages) of {self._max_bytes} bytes "
                "(max_published_bytes); publish less in one run, or set a higher limit."
            )


def _encode(message: Message) -> bytes:
    header = [message.to, message.key is not None, message.value is not None, message.json_headers]
    header += [message.partition, message.timestamp_ms, message.event_id]
    return Frame(header, message.key or b"", message.value or b"").encode()


def decode_messages(encoded: bytes) -> tuple[Message, ...]:
    """Return the messages that `PublishedMessages` encoded."""
    return tuple(map(_message, FrameReader().feed(encoded))) if encoded else ()


def _message(frame: Frame) -> Message:
    to, has_key, has_value, headers, partition, timestamp_ms, event_id = frame.header
    return Message(
        to,
        frame.first if has_key else None,
        frame.second if has_value else None,
        tuple((name, bytes_of(value)) for name, value in headers),
        partition,
        timestamp_ms,
        event_id,
    )
