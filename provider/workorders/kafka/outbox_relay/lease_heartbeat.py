"""Renews leases while Kafka takes its time, in a thread and with a connection of its own."""

import logging
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

import psycopg

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import connect
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store import leases
from workorders.outbox.store.leases import LEASE_SECONDS, Lease

log: Final = logging.getLogger(__name__)


class LeaseHeartbeat:
    """Renews leases from entering the context until leaving it.

    A failed renewal stops nothing by itself: if the lease was lost, the next write finds the higher epoch.
    """

    def __init__(self, database_url: str, *, every: float = LEASE_SECONDS / 3) -> None:
        self._url = database_url
        self._every = every
        self._leases: dict[int, Lease] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox heartbeat", daemon=True)

    def keep(self, held: Iterable[Lease]) -> None:
        """Renew these leases, and no others, from now on."""
        self._leases = {lease.shard: lease for lease in held}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self._renew()
            except psycopg.Error as error:
                log.warning("The leases of the outbox could not be renewed: %s", one_line(error))

    def _renew(self) -> None:
        held = list(self._leases.values())
        if not held:
            return
        # With the relay's timeouts: a process that is paused between renewal and commit has its shard's row locked.
        with connect(self._url, application_name="workorders outbox heartbeat", session=leases.SESSION) as connection:
            for lease in held:
                try:
                    leases.renew(connection, lease)
                except OutboxFencedError as error:
                    log.warning("%s", error)
                    self._leases = {shard: kept for shard, kept in self._leases.items() if kept is not lease}
