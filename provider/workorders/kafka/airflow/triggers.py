"""The wait for messages: its sensor, and the Airflow trigger, which needs no worker and joins no consumer group."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError

from workorders.airflow.connections import async_database_url
from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.triggers.polling import PollingSensor, PollingTrigger, Probe, TriggererDatabase, shared
from workorders.core.definitions.validation import validate
from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.airflow.connections import async_kafka_settings
from workorders.kafka.airflow.ingest_runs import active
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.requests import Answers
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import KafkaUnavailableError, UnknownTopicError
from workorders.kafka.ledger import batches, positions
from workorders.kafka.partitions import Partition, Place, Position
from workorders.kafka.planning.planner import answered
from workorders.kafka.planning.range_planning import Backlog, backlog, changed_stalls, needs_high_watermark, should_plan

REFRESH_SECONDS = 10.0
"""Time between two searches for topics, partitions, and batches without an active ingest run, and two samples of the
lag."""
DISPATCH_SECONDS = 30.0
"""The listener run that planned a younger batch may still be about to dispatch it."""


class NewMessagesTrigger(PollingTrigger):
    """Fires when a trigger's topics hold messages that the ledger does not know yet.

    Which offsets a batch takes is decided later, under a database lock.
    """

    transient_errors = (*PollingTrigger.transient_errors, KafkaUnavailableError)

    def __init__(
        self,
        *,
        definition: dict[str, Any],
        ingest_dag_id: str | None = None,
        idle_after: float = 3600.0,
        **_from_another_version: Any,
    ) -> None:
        super().__init__(
            subject=f"Trigger {definition['name']}",
            waiting_for=f"messages on {', '.join(definition['topics'])}",
            poll_interval=definition.get("poll_interval", 1.0),
            idle_after=idle_after,
        )
        self.definition = definition
        self.ingest_dag_id = ingest_dag_id

    @asynccontextmanager
    async def open_probe(self) -> AsyncIterator[Probe]:
        """Look the connections up once: they are requests to Airflow, and too slow for every probe."""
        # Not in the constructor: a definition of another version must fail the task with the reason.
        definition = validate(self.definition, KafkaTriggerDefinition, where="its definition")
        url = await async_database_url(definition.database_connection)
        async with (
            shared_cluster(definition.kafka_connection) as cluster,
            shared(TriggererDatabase, url) as database,
        ):
            yield _MessagesProbe(self.log, self.ingest_dag_id, definition, cluster, database).probe


@asynccontextmanager
async def shared_cluster(connection_id: str) -> AsyncIterator[KafkaAdmin]:
    """Share the client of one cluster among all triggers with the same settings."""
    settings = json.dumps(await async_kafka_settings(connection_id), sort_keys=True)
    async with shared(_Cluster, settings) as cluster:
        yield cluster.admin


class _Cluster:
    def __init__(self, settings: str) -> None:
        self.admin = KafkaAdmin(client_settings(json.loads(settings)))

    async def close(self) -> None:
        """Leave the client to the garbage collector: it cannot be closed."""


@dataclass
class _MessagesProbe:
    """What one waiting trigger remembers between two probes."""

    log: Any
    ingest_dag_id: str | None
    definition: KafkaTriggerDefinition
    cluster: KafkaAdmin
    database: TriggererDatabase
    is_polled: bool = False
    refresh_at: float = 0.0
    described: Answers[list[Partition]] = field(default_factory=lambda: Answers([], {}))
    errors: Mapping[Place, WorkOrdersError] = field(default_factory=dict)
    idle_ends: dict[Partition, int] | None = None
    waiting_since: float | None = None

    async def probe(self) -> str | None:
        """Return why a batch should be planned now; None when there is no reason.

        The cluster is asked at every probe, which costs one request. The ledger is read only if messages wait, or if an
        end has moved since the last probe at which none waited.
        """
        now = time.monotonic()
        refresh = now >= self.refresh_at
        if refresh:
            self.described = await self.cluster.partitions(self.definition.topics)
            for error in () if self.described.found else self.described.errors.values():
                if not isinstance(error, UnknownTopicError):
                    raise error
            self.idle_ends = None
            self.refresh_at = now + REFRESH_SECONDS
            if reason := await self._find_inactive():
                return reason
        answers = await self.cluster.last_stable_offsets(self.described.found)
        ends = answers.found
        if refresh:
            before, self.errors = self.errors, {**self.described.errors, **answers.errors}
            for place in self.errors.keys() - before.keys():  # each error is logged once
                self.log.warning("Trigger %s: %s", self.definition.name, self.errors[place])
            await self.database.run(positions.record_lag, self.definition.name, ends)
        if ends == self.idle_ends:
            return None
        ledger = await self.database.run(positions.positions, self.definition.name)
        if refresh and await self._is_unrecorded(ends, ledger):
            return "Where reading begins is not recorded for all that exists; the planner records it."
        logs = await self.cluster.offsets(needs_high_watermark(ends, ledger))
        found = backlog(ends, ledger, {log.partition: log.high_watermark for log in logs.found})
        if refresh:
            stalls = changed_stalls(self.errors, before, ledger, alert_after_seconds=self.definition.alert_after)
            found = replace(found, stalls=stalls)
        busy = any(position.busy for position in ledger.values())
        self.idle_ends = ends if found.empty and not busy else None
        return await self._decide(found, now)

    async def _is_unrecorded(self, ends: Mapping[Partition, int], ledger: Mapping[Partition, Position]) -> bool:
        """Return whether Kafka has told of a topic or partition for which the ledger does not know where to begin."""
        if not self.is_polled:
            polled = await self.database.run(positions.subscriptions, self.definition.name)
            if not polled.issuperset(answered(self.definition, self.errors)):
                return True
            self.is_polled = polled.issuperset(self.definition.topics)
        return bool(positions.missing_from_ledger(ends, ledger))

    async def _decide(self, waiting: Backlog, now: float) -> str | None:
        if waiting.empty:
            self.waiting_since = None
            return None
        self.waiting_since = self.waiting_since or now
        last = await self.database.run(batches.last_plan, self.definition.name)
        if not should_plan(
            waiting,
            self.definition,
            waited_seconds=now - self.waiting_since,
            seconds_since_last_batch=last.seconds_ago,
            is_open=last.is_open,
        ):
            return None
        if waiting.stalls:
            places = ", ".join(map(str, waiting.stalls))
            return f"The stall of {places} has begun or ended, or an alert is due; the planner records that."
        if waiting.mismatches:
            places = ", ".join(map(str, waiting.mismatches))
            return f"Kafka and the ledger contradict each other on {places}; the next batch reports how."
        return f"{waiting.offsets:,} offsets wait to be read."

    async def _find_inactive(self) -> str | None:
        name = self.definition.name
        unfinished = await self.database.run(batches.list_unfinished, name, seconds=DISPATCH_SECONDS)
        if not unfinished or self.ingest_dag_id is None:
            return None
        try:
            # The question blocks, and the triggerer answers it in the loop that this runs in.
            found = await asyncio.to_thread(active, DagRuns(self.ingest_dag_id), unfinished)
        except AirflowRuntimeError as error:
            # To wait for messages needs no Airflow, and the next refresh asks again.
            self.log.warning("Airflow did not answer which ingest runs exist: %s", error)
            return None
        if len(found) == len(unfinished):
            return None
        return "A batch is unfinished and has no active ingest run; it is dispatched."


class WaitForMessagesSensor(PollingSensor):
    """Waits until a trigger's topics hold messages that have no work order yet.

    It is skipped if there are none within `idle_after`. It waits out an outage of the cluster or the database; any
    other failure, such as wrong credentials, fails the task.

    Args:
        definition: the trigger.
        ingest_dag_id: the Dag of the ingest. With it, the wait ends as well for an unfinished batch whose Dag run was
            deleted or marked as ended; without it, the next message does that.
        idle_after: time without messages after which the wait ends as skipped.
        start_from_trigger: whether the task starts in the triggerer. If False, in mapped tasks, or in `dag.test()`, a
            worker starts it and defers.
    """

    def __init__(
        self,
        *,
        definition: KafkaTriggerDefinition,
        ingest_dag_id: str | None = None,
        idle_after: timedelta = timedelta(hours=1),
        start_from_trigger: bool = True,
        **kwargs: Any,
    ) -> None:
        trigger = NewMessagesTrigger(
            definition=definition.model_dump(mode="json"),
            ingest_dag_id=ingest_dag_id,
            idle_after=idle_after.total_seconds(),
        )
        super().__init__(trigger=trigger, start_from_trigger=start_from_trigger, **kwargs)
