"""The messages that a run publishes, as its process sends them: checked and counted when they are published."""

from workorders.core.items import Message
from workorders.core.json_bytes import bytes_of
from workorders.core.worker.exceptions import PublishLimitError
from workorders.core.worker.ipc import Frame, FrameReader


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
