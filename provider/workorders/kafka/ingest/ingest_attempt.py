"""One attempt at a batch: it takes the batch, lets it grow round by round, and knows what came of it.

It asks the database for nothing twice.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Final

import psycopg

from workorders.core.admission import limits
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.admin import KafkaAdmin, run, shared_admin
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import StalledError
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.log_checks import PreflightResult, check_batch
from workorders.kafka.ledger import batches, stalls
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.batches import LEASE_SECONDS, Batch
from workorders.kafka.partitions import Partition
from workorders.kafka.planning import planner
from workorders.kafka.planning.range_planning import LARGE_BACKLOG, NOTHING, Backlog, backlog, rest_seconds, should_plan

SLICE_SECONDS: Final = 400.0
"""How long a batch grows on average, in seconds. The consumer group's offsets are committed only after it. With a
shorter slice, more than one of 20 messages would meet the start of the next task, and of its JVM."""
_POLL_SECONDS: Final = 0.2
_REST_POLL_SECONDS: Final = 1.0
"""Many batches rest at the same time, and each poll is a request to Kafka and one to Postgres."""
_POLLS_PER_SECOND: Final = 20.0
"""Of all batches that grow. One batch alone polls every `_POLL_SECONDS`."""


class IngestAttempt:
    """An attempt at a batch, with a connection to work with."""

    batch: Batch
    """The batch as it was when the attempt began."""
    epoch: int = 0
    """Number of the attempt; an earlier one changes nothing any more. 0 until it is taken."""
    prepared: PreflightResult
    """Which ranges can be read."""
    ended: Batch | None = None
    """The batch as it was when the engine had returned; None before."""

    def __init__(self, secrets: JobSecrets, batch_id: int, database: Connection) -> None:
        self.secrets = secrets
        self.batch_id = batch_id
        self.database = database

    @cached_property
    def cluster(self) -> KafkaAdmin:
        """The trigger's cluster.

        Raises:
            ClientSettingsError: a client cannot start with the settings of the connection.
        """
        return shared_admin(client_settings(self.secrets.kafka))

    def begin(self, definition: KafkaTriggerDefinition, *, is_retry: bool, report: Callable[[str], object]) -> bool:
        """Take the batch, so that earlier attempts change nothing any more, and check it before Spark is started.

        Nothing is left to do if an operator's decision superseded the batch, or an earlier attempt stored everything
        and died before it moved the ledger. A retry then succeeds, and a clear replays what was ingested.

        Args:
            definition: the only trigger whose batch may be taken. It is stored first: while all partitions are stalled,
                nothing is planned, and only a change of the file may end the stall.
            is_retry: whether an earlier try of the task failed, since it was cleared.
            report: receives what people read about the batch.

        Returns:
            Whether there is anything to ingest, or to replay.

        Raises:
            ForeignBatchError: the batch belongs to another trigger; nothing was done.
            UnknownBatchError: there is none.
            BatchExpiredError: it would be a replay, and retention may have deleted work orders of the batch.
            WorkOrdersError: nothing of the batch can be ingested now; that is recorded.
        """
        unfinished = batches.require_own(self.database, self.batch_id, definition.name)
        refusal: WorkOrdersError | None = None
        try:
            with self.database.transaction():
                planner.register(self.database, definition)
        except WorkOrdersError as error:  # recorded once the batch is known
            refusal = error
        self.epoch = ledger.take_epoch(self.database, self.batch_id)
        self.batch = batch = batches.load(self.database, self.batch_id)
        report(f"Batch {batch.id} of trigger {definition.name} (epoch {self.epoch}): {batch.label}")
        for sentence in batch.supersessions:
            report(sentence)
        superseded = batch.supersessions and (is_retry or not batch.finished)
        if not batch.unfinished and (unfinished or superseded):
            report(f"Nothing of batch {batch.id} is left to ingest.")
            return False
        self._check(refusal)
        for sentence in self.prepared.not_read:
            report(sentence)
        return True

    def _check(self, refusal: WorkOrdersError | None) -> None:
        if not self.batch.unfinished:
            batches.require_kept(self.database, self.batch_id)
        try:
            if refusal is not None:
                raise refusal
            if self.batch.unfinished:  # a replay creates nothing that was not counted before
                limits.require_capacity(self.database, self.batch.trigger)
            self.prepared = run(check_batch(self.cluster, self.batch, self.epoch))
        except WorkOrdersError as error:
            stalls.record_unexplained(self.database, self.batch, self.epoch, one_line(error))
            raise
        if not self.prepared.attempts:
            refusals = {range_: str(error) for range_, error in self.prepared.unreadable.items()}
            stalls.record(self.database, self.batch, self.epoch, refusals)
            raise StalledError(" ".join(refusals.values()))

    def resume(self, epoch: int | None) -> None:
        """Continue an attempt that another process began with this epoch, or begin one without a check of the batch.

        Raises:
            UnknownBatchError: there is no such batch.
            WorkOrdersError: Kafka did not answer, or refused the client.
        """
        self.epoch = ledger.take_epoch(self.database, self.batch_id) if epoch is None else epoch
        self.batch = batches.load(self.database, self.batch_id)
        self.prepared = run(check_batch(self.cluster, self.batch, self.epoch))

    def settle(self, failure: str = "") -> None:
        """Ask the database what came of the attempt.

        Args:
            failure: why the engine failed; empty if it did not. It is recorded for the ranges that have no other
                error. An end without an error proves nothing, and an error does not mean that nothing was
                committed.

        Raises:
            StalledError: some ranges could not be ingested; the others were.
        """
        batches.join_ranges(self.database, self.batch_id)
        self.ended = batches.load(self.database, self.batch_id)
        errors = stalls.errors_of(self.ended, failure)
        if errors:
            stalls.record_unexplained(self.database, self.ended, self.epoch, failure)
        if errors or failure:
            raise StalledError(" ".join(errors) or failure)

    @property
    def created(self) -> tuple[int, int]:
        """How many work orders of the batch were created and rejected, by this attempt and those before it."""
        finished = (self.ended or self.batch).finished
        return sum(range_.created or 0 for range_ in finished), sum(range_.rejected or 0 for range_ in finished)

    def close_lease(self) -> None:
        """Let the batch grow no more, from any thread.

        Raises:
            psycopg.Error: the database failed; the lease ends by itself if the process ends.
        """
        with connect(self.secrets.database_url, autocommit=True, application_name="workorders watch") as connection:
            batches.close_lease(connection, self.batch_id)


@contextmanager
def ingest_attempt(secrets: JobSecrets, batch_id: int, *, application_name: str) -> Iterator[IngestAttempt]:
    """Open an attempt at a batch.

    Raises:
        psycopg.Error: the database cannot be reached.
    """
    with closing(connect(secrets.database_url, autocommit=True, application_name=application_name)) as database:
        attempt = IngestAttempt(secrets, batch_id, database)
        try:
            yield attempt
        finally:
            # The listener plans again at once; if this fails, when the lease has expired. A batch that was not taken
            # may belong to another trigger.
            with suppress(psycopg.Error):
                if attempt.epoch:
                    batches.end_growth(database, batch_id, attempt.epoch)


class GrowingBatch:
    """The growth of a batch whose own ranges are ingested: while messages arrive, its attempt adds ranges to it.

    The batch grows until no message arrived for `linger`, its time slice is over, or the lease is closed; a change of
    the trigger's or the workflow's definition ends it as well, so a batch has one definition. The time slice is half of
    `slice_seconds` to half as much again: tasks that began together would all be replaced at the same moment.
    """

    def __init__(self, attempt: IngestAttempt, *, slice_seconds: float = SLICE_SECONDS) -> None:
        self._database = attempt.database
        self._cluster = attempt.cluster
        self._batch = attempt.batch
        self._epoch = attempt.epoch
        self._definition = KafkaTriggerDefinition.model_validate(attempt.batch.definition)
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
                    planner.grow_batch(
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
