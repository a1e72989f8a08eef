"""Connections for reading ahead, kept while a relay lasts: reading begins and ends with every burst of messages."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workorders.core.postgres.connection import Connection


class SpareConnections:
    """Lends connections, and opens one where none is spare."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._spare: list[Connection] = []
        self._is_closed = False

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """Lend a connection while the context lasts; after an error it is closed.

        Raises:
            psycopg.OperationalError: the server cannot be reached or refuses.
        """
        with self._lock:
            spare = self._spare.pop() if self._spare else None
        connection = spare or self._connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if not self._is_closed:
                self._spare.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all connections, those that are lent as soon as they come back."""
        with self._lock:
            self._is_closed = True
            spare, self._spare = self._spare, []
        for connection in spare:
            connection.close()
