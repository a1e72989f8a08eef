"""Proxies before Postgres, through which things go wrong on the way."""

import select
import socket
import threading
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Self

from psycopg import conninfo

_COMMIT = b"Q\0\0\0\x0bCOMMIT\0"


class _Proxy:
    """Listens on the loopback address while it is entered.

    Args:
        database_url: what it forwards to.
    """

    def __init__(self, database_url: str) -> None:
        self.database_url = database_url
        parts = conninfo.conninfo_to_dict(database_url)
        self._target = (str(parts["host"]), int(str(parts["port"])))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = conninfo.make_conninfo(database_url, host="127.0.0.1", port=self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        """Accept connections."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Accept no more."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._target) as server:
            self._forward(client, server)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Forward between a client and the server; at the end both connections are closed."""
        raise NotImplementedError


class HangingProxy(_Proxy):
    """Can hang: it reads, so that the kernel acknowledges, and forwards nothing."""

    def __init__(self, database_url: str) -> None:
        super().__init__(database_url)
        self._hangs = threading.Event()

    def hang(self) -> None:
        """Forward nothing any more."""
        self._hangs.set()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            for source in select.select([client, server], [], [])[0]:
                data = source.recv(65_536)
                if not data:
                    return
                if not self._hangs.is_set():
                    (server if source is client else client).sendall(data)


class LosingProxy(_Proxy):
    """Ends connections at a COMMIT, by chance: before the server gets it, or after it has committed.

    Args:
        database_url: what it forwards to.
        random: the chance.
        share: of the commits after which a client gets no answer.
    """

    def __init__(self, database_url: str, random: Random, share: float) -> None:
        super().__init__(database_url)
        self._random, self._share = random, share
        self.lost_before = self.lost_after = 0

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        is_lost = False
        while True:
            for source in select.select([client, server], [], [])[0]:
                data = source.recv(65_536)
                if not data:
                    return
                if is_lost and source is server:
                    self.lost_after += 1
                    return
                if data == _COMMIT and self._random.random() < self._share:
                    is_lost = self._random.random() < 0.7
                    if not is_lost:
                        self.lost_before += 1
                        return
                (server if source is client else client).sendall(data)
