"""The Airflow trigger that waits for the next try of a stalled batch, without a worker."""

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from airflow.triggers.base import TriggerEvent

from workorders.airflow.task_errors import EXPECTED_FAILURES, log_wrapped
from workorders.airflow.triggers.polling import PollingTrigger, Probe, TriggererDatabase
from workorders.core.admission import limits
from workorders.kafka.airflow.triggers import shared_cluster
from workorders.kafka.exceptions import UnknownBatchError
from workorders.kafka.ingest.log_checks import check_batch
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.batches import Batch

LOOK_SECONDS: Final = 5.0
"""Time between two checks of a stalled batch."""


class StalledBatchTrigger(PollingTrigger):
    """Fires when a stalled batch is worth an attempt by a worker, and reads only.

    It fires when the next try is due, which records the stall and sends its alert; earlier if something has changed: a
    decision about the batch or a definition, or if Postgres has capacity again, or Kafka has the messages again. Its
    argument `error` is why the last try failed, with when the next one is.
    """

    # A worker would fail in the same way, and then wait here again.
    transient_errors = EXPECTED_FAILURES

    def __init__(
        self,
        *,
        trigger_name: str,
        batch_id: int,
        error: str,
        delay: float,
        kafka_connection: str,
        database_connection: str,
        **_from_another_version: Any,
    ) -> None:
        super().__init__(
            subject=f"Trigger {trigger_name}, batch {batch_id}",
            waiting_for=f"the next try of batch {batch_id}, without a worker",
            poll_interval=LOOK_SECONDS,
            idle_after=math.inf,
        )
        self.trigger_name = trigger_name
        self.batch_id = batch_id
        self.error = error
        self.delay = delay
        self.kafka_connection = kafka_connection
        self.database_connection = database_connection
        self._due_at = time.monotonic() + delay
        self._state: tuple[object, ...] | None = None
        self._was_refused = False

    def found_event(self, found: str) -> TriggerEvent:
        """Return the event that continues the task on a worker."""
        return TriggerEvent(found)  # type: ignore[no-untyped-call]

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Show the error, and open the database."""
        # Before the first look, which fails if the database is unavailable, and last in the log, where people read it.
        if self.log_wait():
            log_wrapped(self.log, self.error)
        async with super().open_probe() as probe:
            yield probe

    async def probe(self, database: TriggererDatabase) -> str | None:
        """Return why a worker should make an attempt now; None if there is no reason."""
        try:
            batch = await database.run(batches.load, self.batch_id)
        except UnknownBatchError as error:
            return f"{error} A worker ends the task."
        state = batch.definition, [range_.range for range_ in batch.unfinished]
        before, self._state = self._state, state
        if before is not None and before != state:
            return "The batch or the definition of its trigger has changed; a worker makes the next try now."
        if time.monotonic() >= self._due_at:
            return "The next try is due, and a worker makes it."
        was_refused, self._was_refused = self._was_refused, await self._is_refused(database, batch)
        if was_refused and not self._was_refused:
            return "What refused the batch has ended; a worker makes the next try now."
        return None

    async def _is_refused(self, database: TriggererDatabase, batch: Batch) -> bool:
        """Return whether a check before Spark would refuse all of the batch now."""
        try:
            if batch.unfinished:
                await database.run(limits.require_capacity, batch.trigger)
            # Looked up for each check, because a person may have corrected it.
            async with shared_cluster(self.kafka_connection) as cluster:
                checked = await check_batch(cluster, batch, epoch=0)
        except EXPECTED_FAILURES:
            return True
        return not checked.attempts
