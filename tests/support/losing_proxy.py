"""A proxy before Postgres that ends a connection once, at the request or at the answer to it."""

import socket
import threading
from typing import Literal

from psycopg import conninfo

from faults.proxy import Link, Proxy

_COMMIT = b"COMMIT\0"
"""The end of the query, and of the server's tag of the command."""


class LosingProxy(Proxy):
    """Loses one COMMIT, or the answer to one.

    Args:
        database_url: what it forwards to.
    """

    def __init__(self, database_url: str) -> None:
        super().__init__(int(str(conninfo.conninfo_to_dict(database_url)["port"])))
        self.url = conninfo.make_conninfo(database_url, host="127.0.0.1", port=self.port)
        self._loses: Literal["request", "answer"] | None = None
        self.lost = threading.Event()

    def lose(self, what: Literal["request", "answer"]) -> None:
        """Lose the next one."""
        self.lost.clear()
        self._loses = what

    def on_request(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass on what a client sends, or end its connection."""
        self._pass(link, sink, data, "request")

    def on_answer(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass on what the server sends, or end its connection."""
        self._pass(link, sink, data, "answer")

    def _pass(self, link: Link, sink: socket.socket, data: bytes, what: str) -> None:
        if self._loses == what and _COMMIT in data:
            self._loses = None
            self.lost.set()
            link.close()
        else:
            sink.sendall(data)
