"""Bounds what each webhook holds: bodies that are received, requests in process, and callers that wait for a result.

Each webhook has its own capacity, so that callers of one cannot use up the slots or the memory of another.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

from workorders.core.definitions.fields import MIB
from workorders.webhook.refusals import RefusedError, TryAgainError

MAX_BYTES: Final = 128 * MIB
"""Bytes of bodies that a process holds; each webhook has an equal share, and at least one body of the largest size."""
MAX_INCOMING: Final = 256
"""Bodies of one webhook that are received at the same time."""
MAX_INCOMING_FROM_ADDRESS: Final = 32
"""Of these, bodies from one address whose sender is not authenticated yet."""
MAX_PROCESSING: Final = 128
"""Requests of one webhook that have a thread or wait for one."""
MAX_WAITING: Final = 256
"""Callers of one webhook that wait for a result."""
FIRST_SECONDS: Final = 5.0
MIN_BYTES_PER_SECOND: Final = 16 * 1024
MAX_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1


class IncomingBody:
    """A body that is being received; see `Capacity.incoming`."""

    def __init__(self, capacity: "Capacity", peer: str) -> None:
        self._capacity = capacity
        self._limit: asyncio.Timeout | None = None
        self._is_dropped = False
        self.peer = peer
        self.size = 0

    async def read(self, stream: AsyncIterator[bytes], max_bytes: int) -> bytes:
        """Return the body.

        Raises:
            RefusedError: it is larger than `max_bytes`, or too slow.
            TryAgainError: it was dropped so that others could arrive, or its webhook holds too many bytes.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        content = bytearray()
        try:
            async with asyncio.timeout_at(began + FIRST_SECONDS) as self._limit:
                async for part in stream:
                    if self._is_dropped:  # its bytes are no longer counted, and a new time limit would keep it
                        raise TimeoutError
                    if len(content) + len(part) > max_bytes:
                        raise too_large(max_bytes)
                    self._capacity.hold(self, len(part))
                    content += part
                    earned = FIRST_SECONDS + len(content) / MIN_BYTES_PER_SECOND
                    self._limit.reschedule(began + min(earned, MAX_SECONDS))
        except TimeoutError as error:
            if self._is_dropped:
                raise _busy("the webhook receives too many bodies, and this one was the slowest") from error
            raise RefusedError(
                408,
                "too-slow",
                f"The body was too slow; nothing was created; send it within {FIRST_SECONDS:g} s, and a large one with "
                f"{MIN_BYTES_PER_SECOND // 1024} KiB/s or more and within {MAX_SECONDS:g} s.",
            ) from error
        # One copy at a time in the whole process, because nothing is awaited here.
        return bytes(content)

    def drop(self) -> None:
        """Stop receiving the body."""
        # An expired time limit ends the body by itself, and asyncio does not reschedule it.
        if self._limit is not None and not self._limit.expired():
            self._is_dropped = True
            self._limit.reschedule(asyncio.get_running_loop().time())


class Capacity:
    """Counts what one webhook holds. Used on the event loop only."""

    def __init__(self) -> None:
        self._incoming: dict[IncomingBody, None] = {}  # the oldest first
        self._share = 0
        self._gives_way = False
        self._bytes = 0
        self._processing = 0
        self._waiting = 0

    @contextmanager
    def incoming(self, peer: str, share: int, *, gives_way: bool) -> Iterator[IncomingBody]:
        """Admit one body, and count its bytes until it is answered.

        Args:
            peer: address of the sender.
            share: bytes that the webhook may hold.
            gives_way: whether the sender is not authenticated yet. Then a new body displaces the oldest: a body that is
                sent at once needs its slot for milliseconds, and only a trickling sender keeps one for long.

        Raises:
            TryAgainError: too many bodies are being received.
        """
        self._share, self._gives_way = share, gives_way
        own = [body for body in self._incoming if body.peer == peer] if gives_way else []
        if len(own) >= MAX_INCOMING_FROM_ADDRESS:
            self._drop(own[0])
        elif len(self._incoming) >= MAX_INCOMING:
            self._drop_oldest(but=None)
        body = IncomingBody(self, peer)
        self._incoming[body] = None
        try:
            yield body
        finally:
            self._incoming.pop(body, None)
            self._bytes -= body.size

    def hold(self, body: IncomingBody, size: int) -> None:
        """Count more bytes of a body.

        Raises:
            TryAgainError: the webhook's share is used up.
        """
        while self._bytes + size > self._share:
            self._drop_oldest(but=body)
        body.size += size
        self._bytes += size

    @contextmanager
    def processing(self, body: IncomingBody | None = None) -> Iterator[None]:
        """Count a request that has a thread or waits for one; its body is complete.

        Raises:
            TryAgainError: there are too many.
        """
        if body is not None:
            self._incoming.pop(body, None)
        if self._processing >= MAX_PROCESSING:
            raise _busy("the webhook processes too many requests")
        self._processing += 1
        try:
            yield
        finally:
            self._processing -= 1

    @contextmanager
    def waiting(self) -> Iterator[bool]:
        """Count a caller that waits for a result; yield whether it may wait."""
        if self._waiting >= MAX_WAITING:
            yield False
            return
        self._waiting += 1
        try:
            yield True
        finally:
            self._waiting -= 1

    def _drop_oldest(self, *, but: IncomingBody | None) -> None:
        oldest = next((body for body in self._incoming if body is not but), None) if self._gives_way else None
        if oldest is None:
            raise _busy("the bodies of the webhook use all of its memory")
        self._drop(oldest)

    def _drop(self, body: IncomingBody) -> None:
        del self._incoming[body]
        # Immediately: the body ends a moment later, and what it holds until then is small compared with the share.
        self._bytes -= body.size
        body.size = 0
        body.drop()


def too_large(max_bytes: int) -> RefusedError:
    """Return the refusal of a body that is larger than its webhook takes."""
    return RefusedError(
        413, "too-large", f"The body has more than the {max_bytes} bytes that this webhook takes; nothing was created."
    )


def _busy(reason: str) -> TryAgainError:
    return TryAgainError("busy", f"Nothing was created: {reason}.", seconds=_RETRY_SECONDS)
