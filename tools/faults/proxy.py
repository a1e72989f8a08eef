"""A TCP proxy of the tests' own: it cuts, delays, stalls and refuses what goes through it."""

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from local_stack.ports import LOOPBACK, free_port

PassOn = Callable[["Link", socket.socket, bytes], None]

_READ_BYTES = 1 << 16
_CONNECT_SECONDS = 10.0


class Link:
    """One connection through the proxy: a client's socket and the server's."""

    def __init__(self, number: int, client: socket.socket, server: socket.socket) -> None:
        self.number = number
        self.client = client
        self.server = server
        #: The client's port and the proxy's, by which the client's process is found.
        self.ports: tuple[int, int] = (client.getpeername()[1], client.getsockname()[1])
        self.closed = threading.Event()

    def close(self) -> None:
        """End both connections; a reader finds their end."""
        self.closed.set()
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Proxy:
    """Listens on a port of the loopback interface and passes everything on to another."""

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self._target_port = target_port
        self._listener: socket.socket | None = None
        self._links: list[Link] = []
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._flowing = threading.Event()
        self._flowing.set()
        self._delay_seconds = 0.0
        #: How often something was held back by `slow`.
        self.delayed = 0
        self.accept()

    @property
    def links(self) -> list[Link]:
        """The connections that are open."""
        with self._lock:
            return list(self._links)

    def accept(self) -> None:
        """Take connections."""
        if self._listener is None:
            self._listener = socket.create_server((LOOPBACK, self.port), backlog=64)
            threading.Thread(target=self._listen, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Take no connections: clients are refused by the kernel."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def cut(self) -> int:
        """End every connection, and return how many there were."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.close()
        return len(links)

    def heal(self) -> None:
        """Be a mere wire again."""
        self._delay_seconds = 0.0
        self._flowing.set()
        self.accept()

    def close(self) -> None:
        """End everything."""
        self.refuse()
        self._flowing.set()
        self.cut()

    @contextmanager
    def unreachable(self) -> Iterator[int]:
        """Refuse connections and cut those that are there; gives how many were cut."""
        self.refuse()
        cut = self.cut()
        try:
            yield cut
        finally:
            self.accept()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Keep connections, and let nothing through."""
        self._flowing.clear()
        try:
            yield
        finally:
            self._flowing.set()

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """Hold back everything that is sent for so long."""
        self.delayed = 0
        self._delay_seconds = seconds
        try:
            yield
        finally:
            self._delay_seconds = 0.0

    def _listen(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection((LOOPBACK, self._target_port), timeout=_CONNECT_SECONDS)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = self._link(next(self._numbers), client, server)
        with self._lock:
            self._links.append(link)
        threading.Thread(target=self._pump, args=(link, server, client, self.on_answer), daemon=True).start()
        self._pump(link, client, server, self.on_request)

    def _link(self, number: int, client: socket.socket, server: socket.socket) -> Link:
        return Link(number, client, server)

    def _pump(self, link: Link, source: socket.socket, sink: socket.socket, pass_on: PassOn) -> None:
        try:
            while data := source.recv(_READ_BYTES):
                if self._delay_seconds:
                    self.delayed += 1
                    time.sleep(self._delay_seconds)
                self._flowing.wait()
                pass_on(link, sink, data)
        except OSError:
            pass
        finally:
            link.close()
            with self._lock, contextlib.suppress(ValueError):
                self._links.remove(link)

    def on_request(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass on what a client sends."""
        sink.sendall(data)

    def on_answer(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass on what the server sends."""
        sink.sendall(data)
