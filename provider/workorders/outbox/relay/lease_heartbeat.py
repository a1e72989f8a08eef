"""Renews a lease while Kafka takes its time, in a thread and with a connection of its own."""

import logging
import threading
from typing import Final, Self

import psycopg

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import connect
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store import leases
from workorders.outbox.store.leases import LEASE_SECONDS, Lease

log: Final = logging.getLogger(__name__)


class LeaseHeartbeat:
    """Renews a lease from entering the context until leaving it, or until the lease is lost.

    A failed renewal stops nothing by itself: if the lease was lost, the next write finds the higher epoch.
    """

    def __init__(self, database_url: str, lease: Lease, *, every: float = LEASE_SECONDS / 3) -> None:
        self._url = database_url
        self._lease = lease
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                # With the relay's timeouts: one that is paused between renewal and commit has its shard's row locked.
                with connect(
                    self._url, application_name="workorders outbox heartbeat", session=leases.SESSION
                ) as connection:
                    leases.renew(connection, self._lease)
            except OutboxFencedError as error:
                log.warning("%s", error)
                return
            except psycopg.Error as error:
                log.warning("The lease of the outbox's shard could not be renewed: %s", one_line(error))
