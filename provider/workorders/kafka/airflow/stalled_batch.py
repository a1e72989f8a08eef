"""The Airflow trigger that waits for the next try of a stalled batch, without a worker."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from airflow.triggers.base import TriggerEvent

from workorders.airflow.connections import async_database_url
from workorders.airflow.task_errors import EXPECTED_FAILURES, log_wrapped, reason
from workorders.airflow.triggers.polling import PollingTrigger, Probe
from workorders.airflow.triggers.resources import TriggererDatabase, resources
from workorders.core import triggers
from workorders.core.admission import limits
from workorders.core.backoff import MAX_SECONDS
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection, connect
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.airflow.connections import async_kafka_settings
from workorders.kafka.airflow.triggers import SharedCluster
from workorders.kafka.ingest.preflight import PreflightResult, check_batch
from workorders.kafka.ledger import batches, stall_alerts, stalls
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.batches import Batch
from workorders.kafka.partitions import OffsetRange

_BATCHES = load_queries("workorders.kafka.ledger", "sql/batches.sql")

LOOK_SECONDS: Final = 5.0
"""Time between two looks for a decision or a changed definition."""
MAX_TRIES: Final = 2
"""How many stalled batches of a triggerer use a connection to Postgres at the same time, for their tries."""
_threads: Final = ThreadPoolExecutor(MAX_TRIES, "workorders-stalled")


T = TypeVar("T")


class StalledBatchTrigger(PollingTrigger):
    """Fires when a stalled batch is worth an attempt by a worker.

    When the next try is due, it does what a try does before Spark: it takes an epoch, and asks Postgres for capacity
    and Kafka for the messages. If these refuse the batch, that is recorded as for any try, and the next one is due a
    minute later. Otherwise a worker makes the try. A worker also makes it when an alert is due: a notifier is a user's
    code, which must not hold up the triggerer.

    A decision about the batch or a new definition of its trigger wakes a worker earlier.

    Args:
        trigger_name: of the Kafka trigger.
        batch_id: of the batch.
        error: why the last try failed, with when the next one is.
        delay: seconds until the next try.
        alert_after: seconds after which a stall is worth an alert.
        kafka_connection: id of the Airflow Kafka connection.
        database_connection: id of the Airflow Postgres connection.
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
        alert_after: float,
        kafka_connection: str,
        database_connection: str,
        **_from_another_version: Any,
    ) -> None:
        subject = f"Trigger {trigger_name}, batch {batch_id}"
        super().__init__(
            subject=subject,
            waiting_for=f"the next try of batch {batch_id}, without a worker",
            poll_interval=LOOK_SECONDS,
            idle_after=math.inf,
        )
        self.trigger_name = trigger_name
        self.batch_id = batch_id
        self.error = error
        self.delay = delay
        self.alert_after = alert_after
        self.kafka_connection = kafka_connection
        self.database_connection = database_connection
        self._due_at = time.monotonic() + delay
        self._shown: str | None = None

    def found_event(self, found: str) -> TriggerEvent:
        """Return the event that continues the task on a worker."""
        return TriggerEvent(found)  # type: ignore[no-untyped-call]

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Show the error, and look the connection to the database up."""
        if self._shown is None:
            self.show(self.error)
        url = await async_database_url(self.database_connection)
        async with resources.use(TriggererDatabase, url) as database:
            yield _StallProbe(self, url, database).probe

    def is_due(self) -> bool:
        """Return whether the time of the next try has come."""
        return time.monotonic() >= self._due_at

    def refused(self, errors: str) -> None:
        """Show why the batch still cannot be ingested, and wait for the next try."""
        self._due_at = time.monotonic() + MAX_SECONDS
        self.show(f"{self.subject}: {errors} Next try in {MAX_SECONDS} s.")

    def show(self, sentence: str) -> None:
        """Log a sentence as errors, unless it ends the log already: a stall may last for weeks."""
        if sentence != self._shown:
            log_wrapped(self.log, sentence)
            self._shown = sentence


class _StallProbe:
    """What a waiting batch remembers between two probes."""

    def __init__(self, trigger: StalledBatchTrigger, database_url: str, database: TriggererDatabase) -> None:
        self._trigger = trigger
        self._database_url = database_url
        self._database = database
        self._state: list[tuple[Any, ...]] | None = None

    async def probe(self) -> str | None:
        """Return why a worker should make an attempt now; None if there is no reason."""
        state = await self._database.fetch(_BATCHES["state"], {"batch_id": self._trigger.batch_id})
        before, self._state = self._state, state
        if before is not None and before != state:
            return "The batch or the definition of its trigger has changed; a worker makes the next try now."
        return await self._try() if self._trigger.is_due() else None

    async def _try(self) -> str | None:
        if await _in_thread(self._is_alert_due):
            return "An alert is due, which a worker sends."
        batch, epoch, refusal = await _in_thread(self._begin)
        errors = await self._refusals(batch, epoch, refusal)
        if errors is None:
            return "The next try is due, and a worker makes it."
        await _in_thread(partial(self._record, batch, epoch, errors))
        self._trigger.refused(" ".join(dict.fromkeys(errors.values())))
        return None

    def _is_alert_due(self) -> bool:
        with self._connect() as database:
            trigger = triggers.find(database, self._trigger.trigger_name)
            return stall_alerts.is_due(database, trigger, after_seconds=self._trigger.alert_after)

    def _begin(self) -> tuple[Batch, int, WorkOrdersError | None]:
        """Take an epoch; return it with the batch, and with why its workflow takes no work orders now."""
        with self._connect() as database:
            own_id = batches.load_own(database, self._trigger.batch_id, self._trigger.trigger_name).id
            epoch = ledger.take_epoch(database, own_id)
            batch = batches.load(database, own_id)
            try:
                if batch.unfinished:
                    limits.require_capacity(database, batch.trigger)
            except WorkOrdersError as error:
                return batch, epoch, error
            return batch, epoch, None

    async def _refusals(
        self, batch: Batch, epoch: int, refusal: WorkOrdersError | None
    ) -> Mapping[OffsetRange, str] | None:
        """Return by range why nothing of the batch can be ingested now; None if it is worth an attempt."""
        try:
            if refusal is not None:
                raise refusal
            checked = await self._check(batch, epoch)
        except WorkOrdersError as error:
            parts = batch.unfinished or batch.finished
            return dict.fromkeys((part.range for part in parts), nothing_committed(error))
        if checked.attempts or not checked.unreadable:
            return None
        return {range_: str(error) for range_, error in checked.unreadable.items()}

    async def _check(self, batch: Batch, epoch: int) -> PreflightResult:
        # Looked up for each try, because a person may have corrected it.
        settings = json.dumps(await async_kafka_settings(self._trigger.kafka_connection), sort_keys=True)
        async with resources.use(SharedCluster, settings) as shared:
            return await check_batch(shared.cluster, batch, epoch)

    def _record(self, batch: Batch, epoch: int, errors: Mapping[OffsetRange, str]) -> None:
        with self._connect() as database:
            stalls.record(database, batch, epoch, errors)

    def _connect(self) -> Connection:
        return connect(self._database_url, autocommit=True, application_name="workorders stalled")


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def nothing_committed(error: Exception) -> str:
    """Return the sentence of a failure before which nothing was committed."""
    return f"{reason(error)} Nothing was committed."
