"""The Spark application's driver: takes a batch, reads its ranges, and lets the executors create the work orders."""

import argparse
import sys
from collections.abc import Sequence

import psycopg
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from workorders.core.database import connect
from workorders.core.exceptions import WorkOrdersError
from workorders.core.work_orders import Created
from workorders.kafka import batches, ledger, stalls
from workorders.kafka.attempt import Attempt, Outcome
from workorders.kafka.batches import Batch, BatchRange
from workorders.kafka.connections import Connections
from workorders.kafka.definition import KafkaTriggerDefinition
from workorders.kafka.executor import RESULT_SCHEMA, PartitionIngest, outcomes, sentence
from workorders.kafka.preparation import prepare
from workorders.kafka.reader import read
from workorders.kafka.record import RecordMapping
from workorders.kafka.report import table
from workorders.kafka.settings import client_settings, java_settings

_SESSION_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A second attempt at a task while the first still runs would only be fenced; it costs a read for nothing.
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    # Bounds the memory of the executors' Python workers, however large the messages are.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16MB",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one attempt at one batch; 0 when every range is ingested."""
    parser = argparse.ArgumentParser(description="Create the work orders of one planned batch.")
    parser.add_argument("--batch", type=int, required=True, help="number of the batch")
    parser.add_argument("--epoch", type=int, help="epoch of this attempt; taken anew when left out")
    given = parser.parse_args(arguments)
    try:
        connections = Connections.from_environment()
        results = ingest_batch(connections, given.batch, given.epoch)
    except (WorkOrdersError, psycopg.Error) as error:
        print(f"Batch {given.batch}: {' '.join(str(error).split())}", flush=True)  # noqa: T201 - the task's log is this process's output
        return 1
    print(table(results), flush=True)  # noqa: T201
    errors = [result.error for result in results if result.error is not None]
    for reason in errors:
        print(reason, flush=True)  # noqa: T201
    return 1 if errors else 0


def ingest_batch(connections: Connections, batch_id: int, epoch: int | None) -> list[Outcome]:
    """Make one attempt at a batch and return what became of each of its ranges.

    A range that fails is written down in the ledger with its reason; the others are committed all the same.

    Raises:
        UnknownBatchError: there is no such batch.
        KafkaUnavailableError: the cluster did not answer.
        psycopg.Error: the database failed outside the ranges' own transactions.
    """
    with connect(connections.database_url, autocommit=True, application_name="workorders driver") as connection:
        attempt_epoch = ledger.take_epoch(connection, batch_id) if epoch is None else epoch
        batch = batches.load(connection, batch_id)
    prepared = prepare(connections.kafka, batch, attempt_epoch)
    results = [
        Outcome(range_, Created(), 0.0, sentence(range_, refusal)) for range_, refusal in prepared.refusals.items()
    ]
    results += _Job(connections, batch).ingest(prepared.attempts)
    return _settle(connections, batch, attempt_epoch, results)


class _Job:
    """Runs the ranges of one batch through Spark."""

    def __init__(self, connections: Connections, batch: Batch) -> None:
        self._connections = connections
        self._definition = KafkaTriggerDefinition.model_validate(batch.definition)
        self._spark: SparkSession | None = None

    def ingest(self, attempts: Sequence[Attempt]) -> list[Outcome]:
        """Ingest the ranges together; one at a time if Spark's own reader fails, so that one cannot fail the others."""
        task = self._task(attempts)
        try:
            found = self._run(task, [attempt for attempt in attempts if attempt.read_from < attempt.range.end])
        except PySparkException as error:
            if len(attempts) == 1:
                return [Outcome(attempts[0].range, Created(), 0.0, sentence(attempts[0].range, error))]
            return [outcome for attempt in attempts for outcome in self.ingest([attempt])]
        # Spark read to the end and reported no message: all of the range is aborted, compacted or markers.
        invisible = [attempt for attempt in attempts if attempt.range not in {outcome.range for outcome in found}]
        return found + [task.ingest(attempt, iter(())) for attempt in invisible]

    def _task(self, attempts: Sequence[Attempt]) -> PartitionIngest:
        return PartitionIngest(
            self._connections.database_url,
            client_settings(self._connections.kafka),
            RecordMapping.of(self._definition),
            attempts,
        )

    def _run(self, task: PartitionIngest, attempts: Sequence[Attempt]) -> list[Outcome]:
        if not attempts:
            return []
        messages = read(self._session(), java_settings(self._connections.kafka), attempts)
        rows = messages.mapInArrow(task, RESULT_SCHEMA).collect()
        return outcomes([row.asDict() for row in rows], attempts)

    def _session(self) -> SparkSession:
        if self._spark is None:
            builder = SparkSession.builder.appName("workorders")
            for name, value in _SESSION_SETTINGS.items():
                builder = builder.config(name, value)
            self._spark = builder.getOrCreate()
        return self._spark


def _settle(connections: Connections, batch: Batch, epoch: int, results: Sequence[Outcome]) -> list[Outcome]:
    """Ask the database what is finished, which alone knows it, and write the stalls down."""
    with connect(connections.database_url, autocommit=True, application_name="workorders driver") as connection:
        now = batches.load(connection, batch.id)
        before = {part.range for part in batch.ranges if part.finished}
        finished = {part.range: part for part in now.ranges if part.finished and part.range not in before}
        settled = [_believe(result, finished.get(result.range)) for result in results]
        stalls.write_down(
            connection, now, epoch, {result.range: result.error for result in settled if result.error is not None}
        )
    return settled


def _believe(result: Outcome, finished: BatchRange | None) -> Outcome:
    """Return the outcome as the database has it.

    A range that reports an error and is finished all the same lost its connection while COMMIT was under way, or Spark
    lost its answer: the commit did happen. An attempt that was fenced committed nothing; another one did.
    """
    if result.error is None or result.fenced or finished is None:
        return result
    return Outcome(result.range, Created(finished.created or 0, finished.rejected or 0), result.seconds)


if __name__ == "__main__":
    sys.exit(main())
