"""A small HTTP server on the loopback device, in a thread of this process."""

import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from local_stack.ports import LOOPBACK


@dataclass(frozen=True)
class Request:
    """The request of a client."""

    method: str
    path: str
    headers: Mapping[str, str]
    """By names in small letters."""
    body: bytes


Answer = Callable[[Request], tuple[int, bytes] | tuple[int, bytes, Mapping[str, str]]]
"""Returns the HTTP status, the body, and perhaps headers of the answer; called in a thread per connection."""


class LoopbackServer:
    """Answers on a free port, from `start` until `stop`, or within its context.

    Args:
        answer: what each request gets.
        tls: the server's certificate; without it, plain HTTP is spoken.
    """

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(answer))
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        #: Where it is, without a slash at the end.
        self.url = f"{scheme}://{LOOPBACK}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, name=self.url, daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more, and free the port."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def log_message(self, format: str, *arguments: object) -> None:
            """Write nothing."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answered, *more = answer(Request(self.command, self.path, headers, body))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answered)))
            for name, value in (pair for some in more for pair in some.items()):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answered)

    return Handler
