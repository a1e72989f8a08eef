"""The Airflow trigger that waits until the outbox holds something, without a worker."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent, TriggerEvent

from workorders.airflow.connections import async_database_url
from workorders.airflow.shared import shared_database
from workorders.core.backoff import delay_seconds
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.queries import load_queries
from workorders.outbox.settings import BUCKETS

_QUERIES = load_queries("workorders.outbox", "sql/relay.sql")


class OutboxTrigger(BaseTrigger):
    """Fires when messages wait for Kafka, or the time of something held has come.

    Args:
        database_connection: id of the Airflow Postgres connection.
        poll_interval: seconds between two looks.
        idle_after: seconds after which the wait ends without messages.
    """

    def __init__(self, *, database_connection: str, poll_interval: float, idle_after: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.database_connection = database_connection
        self.poll_interval = poll_interval
        self.idle_after = idle_after

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and what it was made with."""
        return (
            f"{OutboxTrigger.__module__}.{OutboxTrigger.__qualname__}",
            {
                "database_connection": self.database_connection,
                "poll_interval": self.poll_interval,
                "idle_after": self.idle_after,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something to send, and end the task right here, without starting a worker for it."""
        self.log.info("Waiting for messages in the outbox.")
        deadline, failures = time.monotonic() + self.idle_after, 0
        while time.monotonic() < deadline:
            try:
                if await self._is_anything_waiting():
                    self.log.info("Messages wait for Kafka.")
                    yield TaskSuccessEvent()
                    return
                failures = 0
            except (ConfigurationError, AirflowNotFoundException) as error:
                self.log.error("Outbox: %s Nothing was sent.", error)
                yield TaskFailedEvent()
                return
            except psycopg.Error as error:
                failures += 1
                delay = delay_seconds(failures)
                self.log.warning("%s Nothing was lost; looking again in %s s.", one_line(error), delay)
                await asyncio.sleep(delay)
                continue
            await asyncio.sleep(self.poll_interval)
        self.log.info("Nothing came within %.0f s.", self.idle_after)
        yield TaskSkippedEvent()

    async def _is_anything_waiting(self) -> bool:
        database = shared_database(await self._url())
        rows = await database.fetch(_QUERIES["anything"], {"buckets": list(range(BUCKETS))})
        return bool(rows and rows[0][0])

    async def _url(self) -> str:
        # Looked up once: that is a request to Airflow, and too dear for every look.
        if not hasattr(self, "_known_url"):
            self._known_url = await async_database_url(self.database_connection)
        return self._known_url
