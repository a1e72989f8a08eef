"""The growth of a batch: while messages arrive, its attempt adds ranges to it and ingests them, round by round."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.batches import LEASE_SECONDS, Batch
from workorders.kafka.partitions import Partition
from workorders.kafka.planning.planner import grow_batch
from workorders.kafka.planning.wakeup import LARGE_BACKLOG, NOTHING, Backlog, backlog, rest_seconds, should_plan

SLICE_SECONDS: Final = 400.0
"""How long a batch grows on average, in seconds. The consumer group's offsets are committed only after it. With a
shorter slice, more than one of 20 messages would meet the start of the next task, and of its JVM."""
_POLL_SECONDS: Final = 0.2
_REST_POLL_SECONDS: Final = 1.0
"""Many batches rest at the same time, and each poll is a request to Kafka and one to Postgres."""
_POLLS_PER_SECOND: Final = 20.0
"""Of all batches that grow. One batch alone polls every `_POLL_SECONDS`."""


class GrowingBatch:
    """Adds ranges to a batch whose own ranges are finished.

    The batch grows until no message arrived for `linger`, its time slice is over, or the lease is closed; a change of
    the trigger's or the workflow's definition ends it as well, so a batch has one definition.

    Args:
        database: a connection in autocommit mode.
        cluster: the trigger's cluster.
        batch: the batch as it was when the attempt began.
        epoch: of the attempt.
        slice_seconds: how long the batch grows, half of it or half as much again: tasks that began together would end
            together, and all be replaced at the same moment.
    """

    def __init__(
        self,
        database: Connection,
        cluster: KafkaAdmin,
        batch: Batch,
        epoch: int,
        *,
        slice_seconds: float = SLICE_SECONDS,
    ) -> None:
        self._database = database
        self._cluster = cluster
        self._batch = batch
        self._epoch = epoch
        self._definition = KafkaTriggerDefinition.model_validate(batch.definition)
        self._until = time.monotonic() + slice_seconds * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        self._renew_at = 0.0
        self._partitions: Sequence[Partition] = ()
        self._idle_ends: Mapping[Partition, int] | None = None
        self._waiting_since: float | None = None
        self._growing = 1

    def rounds(self) -> Iterator[Sequence[Attempt]]:
        """Yield what to ingest next; the caller ingests it before it asks for more, and asks no more if a range failed.

        Raises:
            WorkOrdersError: Kafka did not answer, or refused the client.
            psycopg.Error: the database failed.
        """
        if self._definition.linger == 0 or not self._has_lease():
            return
        self._partitions = run(self._cluster.partitions(self._definition.topics)).found
        while time.monotonic() < self._until and (attempts := self._next()):
            begun = time.monotonic()
            yield attempts
            self._rest(rest_seconds(time.monotonic() - begun, self._growing))

    def _next(self) -> Sequence[Attempt]:
        """Wait for messages, and return attempts at the ranges that were added for them; none if growth ends."""
        until = min(time.monotonic() + self._definition.linger, self._until)
        while self._has_lease():
            if self._is_due():
                grown = run(
                    grow_batch(
                        self._database,
                        self._cluster,
                        self._batch,
                        self._epoch,
                        definition=self._definition,
                        partitions=self._partitions,
                    )
                )
                if grown is None:
                    return ()
                ranges, epoch = grown
                if ranges:
                    units = (unit for range_ in ranges for unit in range_.to_ingest)
                    return [Attempt.at(self._batch, unit, epoch, unit.range.start) for unit in units]
            pause = min(max(_POLL_SECONDS, self._growing / _POLLS_PER_SECOND), self._definition.poll_interval)
            if time.monotonic() + pause > until:
                return ()
            time.sleep(pause)
        return ()

    def _has_lease(self) -> bool:
        """Return whether the batch may grow, and renew its lease in time."""
        if time.monotonic() < self._renew_at:
            return True
        self._renew_at = time.monotonic() + LEASE_SECONDS / 5
        return batches.renew_lease(self._database, self._batch.id, self._epoch)

    def _is_due(self) -> bool:
        """Return whether ranges should be added now, as the listener would decide it."""
        waiting = self._waiting()
        if waiting.empty:
            self._waiting_since = None
            return False
        now = time.monotonic()
        self._waiting_since = self._waiting_since or now
        last = batches.last_plan(self._database, self._batch.trigger.name)
        self._growing = last.growing
        return should_plan(
            waiting,
            self._definition,
            waited_seconds=now - self._waiting_since,
            seconds_since_last_batch=last.seconds_ago,
        )

    def _waiting(self) -> Backlog:
        ends = run(self._cluster.last_stable_offsets(self._partitions)).found
        if ends == self._idle_ends:
            return NOTHING
        positions = ledger.positions(self._database, self._batch.trigger.name)
        # A log that contradicts the ledger is left to the listener.
        found = replace(backlog(ends, positions), mismatches=())
        busy = any(position.busy for position in positions.values())
        self._idle_ends = ends if found.empty and not busy else None
        return found

    def _rest(self, seconds: float) -> None:
        """Wait so long, or until a poll finds a large backlog."""
        rested = time.monotonic() + seconds
        large = min(LARGE_BACKLOG, self._definition.max_messages)
        while (left := rested - time.monotonic()) > 0 and self._waiting().offsets < large:
            time.sleep(min(left, _REST_POLL_SECONDS))
