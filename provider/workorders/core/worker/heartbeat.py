"""Says that a group is alive, from a thread and a connection of its own, whatever its runs do meanwhile."""

import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

import psycopg

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import lifecycle

_SILENT_SHARE: Final = 0.8


class Heartbeat:
    """Beats while it is entered.

    Args:
        database_url: where to say it.
        group_id: the group.
        seconds: between two beats.
        grace_seconds: silence after which others may take the group's runs.
        say: is told of beats that failed.
    """

    def __init__(
        self,
        database_url: str,
        group_id: UUID,
        *,
        seconds: float = lifecycle.HEARTBEAT_SECONDS,
        grace_seconds: float = lifecycle.GRACE_SECONDS,
        say: Callable[[str], None],
    ) -> None:
        self._url = database_url
        self._group_id = group_id
        self._seconds = seconds
        self._grace_seconds = grace_seconds
        self._say = say
        self._end = threading.Event()
        self._last = time.monotonic()
        #: Set when the last beat found no unfinished run of the group; whoever has one in hand must make sure.
        self.found_none = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_end, name="workorders heartbeat", daemon=True)

    def __enter__(self) -> "Heartbeat":
        """Begin to beat."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Beat no more."""
        self._end.set()
        self._thread.join(self._seconds)

    @property
    def silent(self) -> bool:
        """Whether no beat went through for so long that others may soon take the runs."""
        return time.monotonic() - self._last > _SILENT_SHARE * self._grace_seconds

    def _beat_until_end(self) -> None:
        connection: Connection | None = None
        while not self._end.wait(self._seconds):
            try:
                if connection is None or connection.closed:
                    connection = connect(self._url, autocommit=True, application_name="workorders heartbeat")
                begun = time.monotonic()
                if lifecycle.heartbeat(connection, self._group_id) == 0:
                    self.found_none.set()
                self._last = begun
            except psycopg.Error as error:
                self._say(f"The heartbeat of this group failed and is tried again: {one_line(error)}")
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()
