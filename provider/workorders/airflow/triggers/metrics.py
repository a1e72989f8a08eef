"""The Airflow trigger that sends the metrics to Airflow's stats: the triggerer lives on where a task would end."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from workorders.airflow.connections import async_database_url
from workorders.airflow.stats import reporter
from workorders.airflow.triggers.polling import PollingTrigger, Probe
from workorders.airflow.triggers.resources import TriggererDatabase, resources
from workorders.core.metrics import samples
from workorders.monitoring.snapshot import readings

REPORT_SECONDS: Final = 15.0


class ReportMetricsTrigger(PollingTrigger):
    """Sends all metrics every 15 s, and ends after `duration`, so that the Dag run ends.

    Args:
        database_connection: id of the Airflow Postgres connection.
        duration: seconds.
    """

    def __init__(
        self, *, database_connection: str = "workorders_db", duration: float = 3600.0, **_from_another_version: Any
    ) -> None:
        super().__init__(
            subject="Metrics",
            waiting_for=f"the next report of the metrics, every {REPORT_SECONDS:g} s",
            poll_interval=REPORT_SECONDS,
            # An outage of the database may last beyond the duration.
            idle_after=2 * duration,
        )
        self.database_connection = database_connection
        self.duration = duration
        self._ends_at = time.monotonic() + duration

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Look the connection up once: it is a request to Airflow, and too slow for every probe."""
        url = await async_database_url(self.database_connection)
        async with resources.use(TriggererDatabase, url) as database:

            async def probe() -> str | None:
                rows = [(reading, await database.fetch(reading.query, {})) for reading in readings()]
                reporter.report(sample for reading, found in rows for sample in samples(reading, found))
                return "The next run of this Dag continues." if time.monotonic() > self._ends_at else None

            yield probe
