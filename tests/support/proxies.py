"""Proxies before Postgres, through which things go wrong on the way."""

import socket
import threading
from collections import Counter
from random import Random
from typing import Literal, Self

from psycopg import conninfo

from faults.proxy import Link, Proxy

_COMMITS = (b"COMMIT\0", b"COMMIT;\0")
"""The end of a query."""


class _PostgresProxy(Proxy):
    """Listens until it is closed.

    Args:
        database_url: what it forwards to.
    """

    def __init__(self, database_url: str) -> None:
        super().__init__(int(str(conninfo.conninfo_to_dict(database_url)["port"])))
        self.database_url = database_url
        self.url = conninfo.make_conninfo(database_url, host="127.0.0.1", port=self.port)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class HangingProxy(_PostgresProxy):
    """Can hang: it reads, so that the kernel acknowledges, and forwards nothing."""

    _hangs = False

    def hang(self) -> None:
        """Forward nothing any more."""
        self._hangs = True

    def on_request(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass on what a client sends, unless it hangs."""
        if not self._hangs:
            sink.sendall(data)

    on_answer = on_request


class LosingProxy(_PostgresProxy):
    """Ends connections at a COMMIT: before the server gets it, or after it has committed.

    Args:
        database_url: what it forwards to.
        random: the chance.
        share: of the commits after which a client gets no answer, without a call of `lose`.
    """

    def __init__(self, database_url: str, random: Random | None = None, share: float = 0) -> None:
        super().__init__(database_url)
        self._random, self._share = random or Random(), share
        self._loses: Literal["request", "answer"] | None = None
        self._without_answer: set[Link] = set()
        self.lost = threading.Event()
        #: How often each was lost.
        self.losses: Counter[str] = Counter()

    def lose(self, what: Literal["request", "answer"]) -> None:
        """Lose the next COMMIT, or the answer to it."""
        self.lost.clear()
        self._loses = what

    def on_request(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass on what a client sends, or end its connection."""
        if data.endswith(_COMMITS):
            what, self._loses = self._loses, None
            if what is None and self._random.random() < self._share:
                what = "answer" if self._random.random() < 0.7 else "request"
            if what == "request":
                self._end(link, what)
                return
            if what == "answer":
                self._without_answer.add(link)
        sink.sendall(data)

    def on_answer(self, link: Link, sink: socket.socket, data: bytes) -> None:
        """Pass on what the server sends, or end its connection."""
        if link in self._without_answer:
            self._end(link, "answer")
        else:
            sink.sendall(data)

    def _end(self, link: Link, what: str) -> None:
        self.losses[f"COMMIT's {what} lost"] += 1
        self.lost.set()
        link.close()
