"""A proxy before Postgres that can hang: it reads, so that the kernel acknowledges, and forwards nothing."""

import socket
import threading
from contextlib import suppress
from types import TracebackType

from psycopg import conninfo


class HangingProxy:
    """Listens on the loopback address while it is entered.

    Args:
        database_url: what it forwards to.
    """

    def __init__(self, database_url: str) -> None:
        parts = conninfo.conninfo_to_dict(database_url)
        self._target = (str(parts["host"]), int(str(parts["port"])))
        self._server = socket.create_server(("127.0.0.1", 0))
        self._hangs = threading.Event()
        self.url = conninfo.make_conninfo(database_url, host="127.0.0.1", port=self._server.getsockname()[1])

    def __enter__(self) -> "HangingProxy":
        """Accept connections."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Accept no more."""
        self._server.close()

    def hang(self) -> None:
        """Forward nothing any more."""
        self._hangs.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), target:
            while data := source.recv(65_536):
                if not self._hangs.is_set():
                    target.sendall(data)
