"""The Airflow trigger that waits for messages in the outbox, without a worker."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from workorders.airflow.connections import async_database_url
from workorders.airflow.triggers.polling import PollingTrigger, Probe
from workorders.airflow.triggers.resources import TriggererDatabase, resources
from workorders.outbox.store.backlog import waiting_statement


class OutboxTrigger(PollingTrigger):
    """Fires when a message waits for Kafka, or a hold is due.

    Args:
        database_connection: id of the Airflow Postgres connection.
        buckets: of the shard.
        poll_interval: seconds between two probes.
        idle_after: seconds after which the wait ends without messages.
    """

    def __init__(
        self,
        *,
        database_connection: str,
        buckets: Sequence[int],
        poll_interval: float,
        idle_after: float,
        **_from_another_version: Any,
    ) -> None:
        super().__init__(
            subject="Outbox", waiting_for="messages in the outbox", poll_interval=poll_interval, idle_after=idle_after
        )
        self.database_connection = database_connection
        self.buckets = list(buckets)

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Look the connection up once: it is a request to Airflow, and too slow for every probe."""
        url = await async_database_url(self.database_connection)
        async with resources.use(TriggererDatabase, url) as database:

            async def probe() -> str | None:
                rows = await database.fetch(*waiting_statement(self.buckets))
                return "Messages wait for Kafka." if rows and rows[0][0] else None

            yield probe
