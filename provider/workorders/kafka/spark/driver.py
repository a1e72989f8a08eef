"""The Spark application's driver: reads the ranges of a batch, and has the executors create the work orders."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import psycopg
from py4j.protocol import Py4JError
from pydantic import TypeAdapter
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from workorders.core.creation.work_orders import Created
from workorders.core.exceptions import ConfigurationError, WorkOrdersError, one_line
from workorders.core.postgres.credentials import with_texts, with_token
from workorders.kafka.client.java_settings import java_settings
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import RangeError, SparkServerError
from workorders.kafka.ingest.attempt import Attempt, RangeOutcome, combine
from workorders.kafka.ingest.ingest_attempt import GrowingBatch, IngestAttempt, ingest_attempt
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.ledger import batches, stalls, virtual_partitions
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.spark.partition_ingest import RESULT_SCHEMA, PartitionIngest, describe_failure
from workorders.kafka.spark.source import read_ranges, reader_group
from workorders.text_table import text_table

OpenSession = Callable[[int], SparkSession]
"""Returns the session for a query that reads so many offsets."""
_OUTCOME: Final = TypeAdapter(RangeOutcome)

# Spark's source converts a message's timestamp to microseconds and fails above the year 294246, which any producer may
# write. The column cannot be left out, and every retry fails as well. The error's class stays in the JVM. The second
# text is that of Spark 4.0 and 4.1.
_UNREADABLE_TIMESTAMP = (
    "overflows when converting to Spark's microsecond-precision TimestampType",
    "ArithmeticException: long overflow",
)
_LOGIN_REFUSED = ("SaslAuthenticationException", "SslAuthenticationException")
_LOST_STATUS = frozenset({"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"})
_LOST_CONDITIONS = (
    *("INVALID_HANDLE", "SESSION_", "OPERATION_", "NO_ACTIVE_SESSION", "RESPONSE_ALREADY_RECEIVED"),
    "RETRIES_EXCEEDED",  # of Spark 4.0; later versions raise the last error
)
_CLOSED = "Cannot invoke RPC on closed channel"
_WITHOUT_SPARK = (
    "{}: a message has a timestamp that Spark cannot hold, so this range is read without Spark, which is slow."
)
_HEADINGS = ("partition", "offsets", "created", "rejected", "existing", "filtered", "seconds", "")
_NUMBERS = range(2, 7)


def main(session: Callable[[], SparkSession]) -> int:
    """Run the attempt that the process's arguments name; return 0 if every range was ingested."""
    parser = argparse.ArgumentParser(description="Create the work orders of one planned batch.")
    parser.add_argument("--batch", type=int, required=True, help="number of the batch")
    parser.add_argument("--epoch", type=int, help="epoch of this attempt; a new one if not given")
    given = parser.parse_args()
    try:
        secrets = JobSecrets.from_environment()
        with ingest_attempt(secrets, given.batch, application_name="workorders driver") as attempt:
            attempt.resume(given.epoch)
            errors = ingest(attempt, lambda _: session(), _print)
    except (WorkOrdersError, psycopg.Error) as error:
        _print(f"Batch {given.batch}: {one_line(error)}")
        return 1
    _print("\n".join([*attempt.batch.supersessions, *attempt.prepared.not_read, *errors]))
    return 1 if errors else 0


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the task's log is this process's output


def ingest(attempt: IngestAttempt, session: OpenSession, report: Callable[[str], object]) -> list[str]:
    """Ingest the ranges of a batch that were checked; then let it grow while messages arrive.

    The error of a range that fails is recorded in the ledger; the other ranges are committed. It ends the growth.

    Returns:
        The errors of the ranges that failed.

    Raises:
        psycopg.Error: the database failed outside the ranges' own transactions.
    """
    batch = BatchIngest(attempt, session)
    results = batch.ingest_round(attempt.prepared.attempts, attempt.prepared.unreadable)
    report(outcome_table(results))
    errors = _errors(results)
    if errors or not attempt.batch.unfinished:  # a replay is what a person asked for, and not more
        return errors
    try:
        for attempts in GrowingBatch(attempt).rounds():
            results = batch.ingest_round(attempts)
            report(outcome_table(results, with_headings=False))
            errors = _errors(results)
            if errors:
                break
    except (WorkOrdersError, psycopg.Error) as error:
        # What was recorded and not ingested is the next try's; the rest is the listener's.
        report(f"Batch {attempt.batch.id} grows no more: {one_line(error)}")
    return errors


def _errors(results: Iterable[RangeOutcome]) -> list[str]:
    return [result.error for result in results if result.error is not None]


def groups_of_writers(attempts: Sequence[Attempt], max_writers: int | None) -> list[Sequence[Attempt]]:
    """Return the ranges in groups that are written one after the other, each with at most so many ranges."""
    size = max_writers or max(1, len(attempts))
    return [attempts[start : start + size] for start in range(0, len(attempts), size)]


class BatchIngest:
    """Runs ranges of one batch through Spark."""

    def __init__(self, attempt: IngestAttempt, session: OpenSession) -> None:
        self._attempt = attempt
        self._secrets = attempt.secrets
        self._batch = attempt.batch
        self._definition = KafkaTriggerDefinition.model_validate(attempt.batch.definition)
        self._session = session

    def ingest_round(
        self, attempts: Sequence[Attempt], unreadable: Mapping[OffsetRange, RangeError] = MappingProxyType({})
    ) -> list[RangeOutcome]:
        """Ingest ranges of the batch, and return the outcome of each; the errors are recorded in the ledger."""
        results = [
            RangeOutcome(range_, Created(), 0.0, describe_failure(range_, refusal))
            for range_, refusal in unreadable.items()
        ]
        for group in groups_of_writers(attempts, self._definition.spark.max_writers):
            results += self._ingest(group)
        results = [replace(result, error=result.error and self._secrets.mask(result.error)) for result in results]
        epoch = max([self._attempt.epoch, *(attempt.epoch for attempt in attempts)])
        return _settled(self._attempt, epoch, results)

    def _ingest(self, attempts: Sequence[Attempt]) -> list[RangeOutcome]:
        """Ingest the ranges together; one at a time if Spark's own reader fails, so that one cannot fail the others.

        A range that Spark's reader can never read is read without it. PySpark has its own exceptions for some Java
        classes only; failures of Kafka's reader and lost executors are others.
        """
        task = PartitionIngest(
            url_for_executors(self._secrets.database_url),
            client_settings(self._secrets.kafka),
            RecordMapping.of(self._definition, self._secrets.registry),
            attempts,
        )
        try:
            found = self._run(task, [attempt for attempt in attempts if attempt.read_from < attempt.range.end])
        except (ConfigurationError, SparkServerError) as error:  # there is no session, and would be none for one range
            return [_failed(attempt, error) for attempt in attempts]
        except (PySparkException, Py4JError, ValueError) as error:
            if is_server_lost(error):  # the query may still run there, and a second one would only wait for its locks
                return [_failed(attempt, _server_lost(error)) for attempt in attempts]
            if isinstance(error, ValueError) and not isinstance(error, PySparkException):
                raise
            if len(attempts) == 1 and any(text in str(error) for text in _UNREADABLE_TIMESTAMP):
                print(_WITHOUT_SPARK.format(attempts[0].range), flush=True)  # noqa: T201 - for the task's log
                return [task.ingest_without_spark(attempts[0])]
            if len(attempts) == 1:
                return [_failed(attempts[0], error)]
            return [outcome for attempt in attempts for outcome in self._ingest([attempt])]
        # Spark read to the end and reported no message: the whole range is aborted, compacted or transaction markers.
        invisible = [attempt for attempt in attempts if attempt.range not in {outcome.range for outcome in found}]
        return found + [task.ingest(attempt, iter(())) for attempt in invisible]

    def _run(self, task: PartitionIngest, attempts: Sequence[Attempt]) -> list[RangeOutcome]:
        if not attempts:
            return []
        settings = java_settings(self._secrets.kafka)
        group = reader_group(self._batch, settings, key=self._secrets.database_url)
        session = self._session(sum(attempt.offsets for attempt in attempts))
        messages = read_ranges(session, settings, attempts, group)
        rows = messages.mapInArrow(task, RESULT_SCHEMA).collect()
        return [_OUTCOME.validate_json(row["outcome"]) for row in rows]


def url_for_executors(database_url: str) -> str:
    """Return a connection string that holds on any machine: with a new token, and without the driver's files.

    An executor cannot make a token, and the one of the attempt's start may have expired by now. A mounted secret of the
    driver may name certificates next to it, which no executor has.

    Raises:
        ConfigurationError: a file cannot be read.
        psycopg.OperationalError: no token can be had now.
    """
    return with_texts(with_token(database_url))


def _failed(attempt: Attempt, error: Exception) -> RangeOutcome:
    text = describe_failure(attempt.range, error)
    if any(refusal in text for refusal in _LOGIN_REFUSED):
        text += " Check the login of Spark's client in the Airflow Kafka connection."
    return RangeOutcome(attempt.range, Created(), 0.0, text)


def is_server_lost(error: Exception) -> bool:
    """Return whether the connection to a Spark Connect server failed, or the server no longer knows the query."""
    if not isinstance(error, PySparkException):
        return isinstance(error, ValueError) and _CLOSED in str(error)  # of gRPC, after the watchdog has closed it
    # PySpark's Connect client, whose import takes most of a second, is loaded only if a server is used.
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    return (
        getattr(status, "name", None) in _LOST_STATUS
        # An error of the client of Spark 4.0 has the status in its text alone.
        or any(f"status = StatusCode.{name}\n" in str(error) for name in _LOST_STATUS)
        or (error.getCondition() or "").startswith(_LOST_CONDITIONS)
    )


def _server_lost(error: Exception) -> SparkServerError:
    return SparkServerError(
        f"The connection to the Spark Connect server was lost while the batch was ingested: {one_line(error)}; what "
        f"the ledger does not have was not committed. Look into the server's log if the next try fails as well."
    )


def _settled(attempt: IngestAttempt, epoch: int, results: Sequence[RangeOutcome]) -> list[RangeOutcome]:
    """Return one outcome for each range, corrected by the database, which alone knows what is finished.

    The database is asked only if a range failed, or its last virtual partition may have been committed by a worker that
    died before it moved the ledger. Then the stalls are recorded as well.
    """
    if all(result.error is None and result.range.planned == result.range for result in results):
        return combine(results)
    database, batch_id = attempt.database, attempt.batch_id
    virtual_partitions.advance_all(database, batch_id, epoch)
    now = batches.load(database, batch_id)
    before = {range_.range for range_ in _all_ranges(attempt.batch) if range_.finished}
    finished = {range_.range: range_ for range_ in _all_ranges(now) if range_.finished and range_.range not in before}
    settled = combine([_reconcile(result, finished.get(result.range)) for result in results])
    errors = {result.range: result.error for result in settled if result.error is not None}
    stalls.record(database, now, attempt.epoch, errors)
    return settled


def _all_ranges(batch: Batch) -> Iterator[BatchRange]:
    """Yield the ranges of a batch and their virtual partitions."""
    for range_ in batch.ranges:
        yield range_
        yield from range_.virtual_partitions


def _reconcile(result: RangeOutcome, finished: BatchRange | None) -> RangeOutcome:
    """Return the outcome according to the database.

    A range that reports an error but is finished lost its connection during COMMIT, or Spark lost its
    result: the commit succeeded. A fenced attempt committed nothing; another one did.
    """
    if result.error is None or result.fenced or finished is None:
        return result
    counts = Created(finished.created or 0, finished.rejected or 0, finished.existing, filtered=finished.filtered)
    return RangeOutcome(result.range, counts, result.seconds)


def outcome_table(outcomes: Sequence[RangeOutcome], *, with_headings: bool = True) -> str:
    """Return the outcomes as an aligned table of plain text, sorted by partition."""
    rows = [_cells(outcome) for outcome in sorted(outcomes, key=lambda outcome: outcome.range)]
    return text_table([_HEADINGS, *rows] if with_headings else rows, right=_NUMBERS)


def _cells(outcome: RangeOutcome) -> tuple[str, ...]:
    range_ = outcome.range
    place = (str(range_.partition), f"[{range_.start}, {range_.end})")
    if outcome.error is not None:
        return (*place, "-", "-", "-", "-", f"{outcome.seconds:.1f}", "stalled")
    created = outcome.created
    counts = (created.created, created.rejected, created.existing, created.filtered)
    return (*place, *(f"{count:,}" for count in counts), f"{outcome.seconds:.1f}", "done")
