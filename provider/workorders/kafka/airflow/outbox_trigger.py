"""The Airflow trigger that waits for messages in the outbox, without a worker."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from workorders.airflow.connections import async_database_url
from workorders.airflow.triggers.polling import Look, WaitingTrigger
from workorders.airflow.triggers.resources import TriggererDatabase, resources
from workorders.outbox.store.backlog import waiting_statement


class OutboxTrigger(WaitingTrigger):
    """Fires when a message waits for Kafka, or a hold is due.

    Args:
        database_connection: id of the Airflow Postgres connection.
        buckets: of the shard.
        poll_interval: seconds between two looks.
        idle_after: seconds after which the wait ends without messages.
    """

    subject = "Outbox"
    awaited = "messages in the outbox"

    def __init__(
        self,
        *,
        database_connection: str,
        buckets: Sequence[int],
        poll_interval: float,
        idle_after: float,
        **_from_another_version: Any,
    ) -> None:
        super().__init__(poll_interval=poll_interval, idle_after=idle_after)
        self.database_connection = database_connection
        self.buckets = list(buckets)

    def arguments(self) -> dict[str, Any]:
        """Return what this was made with."""
        return {
            "database_connection": self.database_connection,
            "buckets": self.buckets,
            "poll_interval": self.poll_interval,
            "idle_after": self.idle_after,
        }

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Look]:
        """Look the connection up, once: that is a request to Airflow, and too dear for every look."""
        url = await async_database_url(self.database_connection)
        async with resources.use(TriggererDatabase, url) as database:

            async def look() -> str | None:
                rows = await database.fetch(*waiting_statement(self.buckets))
                return "Messages wait for Kafka." if rows and rows[0][0] else None

            yield look
