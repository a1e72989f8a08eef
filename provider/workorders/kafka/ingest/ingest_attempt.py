"""One attempt at a batch: it takes the batch, knows what came of it, and asks the database for nothing twice."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cached_property

import psycopg

from workorders.core.admission import limits
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.admin import KafkaAdmin, run, shared_admin
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import StalledError
from workorders.kafka.ingest.growth import GrowingBatch
from workorders.kafka.ingest.log_checks import PreflightResult, check_batch
from workorders.kafka.ledger import batches, stalls
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.batches import Batch
from workorders.kafka.planning import planner


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
        refusal = self._store(definition)
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
            self.prepared = self._ask_kafka()
        except WorkOrdersError as error:
            stalls.record_unexplained(self.database, self.batch, self.epoch, one_line(error))
            raise
        if not self.prepared.attempts:
            refusals = {range_: str(error) for range_, error in self.prepared.unreadable.items()}
            stalls.record(self.database, self.batch, self.epoch, refusals)
            raise StalledError(" ".join(refusals.values()))

    def _store(self, definition: KafkaTriggerDefinition) -> WorkOrdersError | None:
        """Store the definition; return why it cannot be used, which is recorded once the batch is known."""
        try:
            with self.database.transaction():
                planner.register(self.database, definition)
        except WorkOrdersError as error:
            return error
        return None

    def resume(self, epoch: int | None) -> None:
        """Continue an attempt that another process began with this epoch, or begin one without a check of the batch.

        Raises:
            UnknownBatchError: there is no such batch.
            WorkOrdersError: Kafka did not answer, or refused the client.
        """
        self.epoch = ledger.take_epoch(self.database, self.batch_id) if epoch is None else epoch
        self.batch = batches.load(self.database, self.batch_id)
        self.prepared = self._ask_kafka()

    def growth(self) -> GrowingBatch:
        """Return the growth of the batch, once its own ranges are ingested."""
        return GrowingBatch(self.database, self.cluster, self.batch, self.epoch)

    def _ask_kafka(self) -> PreflightResult:
        return run(check_batch(self.cluster, self.batch, self.epoch))

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
            # The listener plans again at once; if this fails, when the lease has expired.
            with suppress(psycopg.Error):
                batches.end_growth(database, batch_id, attempt.epoch)
