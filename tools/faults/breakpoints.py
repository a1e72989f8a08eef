"""Breakpoints in a program that talks to Postgres: a proxy that reads the protocol holds one message of one session.

No code of the product knows of them. A session is known by its `application_name`, a point by the text of a statement.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from faults.proxy import Link, Proxy

EXECUTOR = "workorders batch"
DRIVER = "workorders driver"
PLANNER = "workorders plan"
COMMITTER = "workorders commit"
COMMAND = "workorders cli"

# Each is a piece of the statement that is *about* to be run when the session is held.
AFTER_READ = b"FOR UPDATE"
AFTER_ROWS = b"SET next_offset"
BEFORE_COMMIT = b"COMMIT\0"
LOADS_THE_BATCH = b"FROM workorders.kafka_batches"
READS_THE_LEDGER = b"FROM workorders.kafka_ledger"
RECORDS_A_RANGE = b"INSERT INTO workorders.kafka_ranges"
RENEWS_THE_LEASE = b"SET open_until"

REACHED_SECONDS = 180.0
_LOOK_SECONDS = 0.05
_LENGTH = struct.Struct("!I")
_PLAIN_REQUESTS = {80877103, 80877104}  # SSLRequest and GSSENCRequest, answered by one byte
_STATEMENTS = {b"Q", b"P"}


@dataclass(eq=False)
class Breakpoint:
    """Holds the first session that comes to a statement."""

    application: str
    statement: bytes
    after: bytes = b""
    """A statement that the session must have sent before."""
    lose_answer: bool = False
    """Pass the statement on, and hold its answer back instead."""
    passing: int = 0
    """The number of sessions that come here first and are let pass."""
    link: "PostgresLink | None" = None
    _reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float = REACHED_SECONDS) -> "PostgresLink":
        """Wait until a session is held here, and return its connection.

        Raises:
            AssertionError: none came.
        """
        assert self._reached.wait(seconds), f"{self.application} did not come to {self.statement!r} in {seconds:g} s"
        assert self.link is not None
        return self.link

    @property
    def is_reached(self) -> bool:
        """Whether a session is, or was, held here."""
        return self._reached.is_set()

    def release(self) -> None:
        """Let the session continue; one whose answer was held back never gets it, for its connection is cut."""
        self._released.set()
        if self.lose_answer and self.link is not None:
            self.link.close()

    def meets(self, link: "PostgresLink", frame: bytes) -> bool:
        """Return whether this session is to be held before this message."""
        return (
            self.link is None
            and link.application.startswith(self.application)
            and self.statement in frame
            and (not self.after or self.after in link.seen)
        )

    def reached(self, link: "PostgresLink") -> None:
        """Record that a session is here."""
        self.link = link
        self._reached.set()

    def hold(self, link: "PostgresLink") -> None:
        """Wait for the release, or for the end of the connection.

        Raises:
            ConnectionError: the client is gone, so it has not sent what is held here.
        """
        while not self._released.wait(_LOOK_SECONDS) and not link.closed.is_set():
            pass
        if link.client_is_gone():
            raise ConnectionError


class PostgresLink(Link):
    """A session of Postgres."""

    def __init__(self, number: int, client: socket.socket, server: socket.socket) -> None:
        super().__init__(number, client, server)
        self.application = ""
        self.buffer = b""
        self.begun = False
        #: The statements so far.
        self.seen = b""
        #: Whose answer is held back.
        self.muted_by: Breakpoint | None = None

    def client_is_gone(self) -> bool:
        """Return whether the client has closed its end."""
        try:
            return self.client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


class PostgresProxy(Proxy):
    """A proxy that understands as much of Postgres' protocol as breakpoints need."""

    def __init__(self, target_port: int) -> None:
        self._points: list[Breakpoint] = []
        super().__init__(target_port)

    @contextmanager
    def breakpoint(self, point: Breakpoint) -> Iterator[Breakpoint]:
        """Set a breakpoint, and remove it at the end; a session that is held there continues."""
        self._points.append(point)
        try:
            yield point
        finally:
            self._points.remove(point)
            point.release()

    def _link(self, number: int, client: socket.socket, server: socket.socket) -> Link:
        return PostgresLink(number, client, server)

    def on_request(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass messages on one by one, and hold those that a breakpoint waits for."""
        assert isinstance(link, PostgresLink)
        link.buffer += data
        while frame := _next_frame(link):
            point = self._look(link, frame)
            if point is None:
                sink.sendall(frame)
            elif point.lose_answer:
                link.muted_by = point
                sink.sendall(frame)
            else:
                point.reached(link)
                point.hold(link)
                sink.sendall(frame)

    def on_answer(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass answers on, but for those that are held back."""
        assert isinstance(link, PostgresLink)
        if link.muted_by is None:
            sink.sendall(data)
        elif not link.muted_by.is_reached:
            link.muted_by.reached(link)

    def _look(self, link: PostgresLink, frame: bytes) -> Breakpoint | None:
        if not link.begun:
            _begin(link, frame)
            return None
        if frame[:1] not in _STATEMENTS:
            return None
        point = next((point for point in self._points if point.meets(link, frame)), None)
        link.seen += frame
        if point is not None and point.passing:
            point.passing -= 1
            return None
        if point is not None:
            point.link = link
        return point


def _next_frame(link: PostgresLink) -> bytes:
    """Take the next whole message out of the buffer; empty when it has not come yet."""
    head = 1 if link.begun else 0  # a session's first messages have no type
    if len(link.buffer) < head + 4:
        return b""
    length = head + _LENGTH.unpack_from(link.buffer, head)[0]
    if len(link.buffer) < length:
        return b""
    frame, link.buffer = link.buffer[:length], link.buffer[length:]
    return frame


def _begin(link: PostgresLink, frame: bytes) -> None:
    if len(frame) == 8 and _LENGTH.unpack_from(frame, 4)[0] in _PLAIN_REQUESTS:
        return
    link.begun = True
    words = frame[8:].split(b"\0")
    named = dict(zip(words[::2], words[1::2], strict=False))
    link.application = named.get(b"application_name", b"").decode()
