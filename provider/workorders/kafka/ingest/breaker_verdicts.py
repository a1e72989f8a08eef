"""The breaker's verdicts, kept with their ranges: a retry that would only find the same again starts no Spark."""

from collections.abc import Mapping, Sequence

from workorders import __version__
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import TooManyRejectedError
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange

_QUERIES = load_queries("workorders.kafka.ingest", "sql/breaker_verdicts.sql")


def keep(
    connection: Connection, batch: Batch, epoch: int, found: Mapping[OffsetRange, str], max_rejected_share: float
) -> None:
    """Keep what the breaker found; only the newest attempt may, and only until a range is finished.

    Args:
        connection: the database.
        batch: the batch, as the attempt took it.
        epoch: number of the attempt.
        found: the breaker's sentence for each range at which it tripped.
        max_rejected_share: the limit that it judged by.
    """
    if not found:
        return
    judged_by = rules(batch, max_rejected_share)
    for range_, verdict in found.items():
        connection.execute(
            _QUERIES["keep_verdict"],
            {
                "batch_id": batch.id,
                "topic": range_.partition.topic,
                "partition": range_.partition.partition,
                "epoch": epoch,
                "rules": judged_by,
                "verdict": verdict,
            },
        )


def forget(connection: Connection, batch_id: int) -> None:
    """Let every range of a batch be read and judged anew, as a person wants who clears its task."""
    connection.execute(_QUERIES["forget_verdicts"], {"batch_id": batch_id})


def standing(
    batch: Batch, parts: Sequence[BatchRange], max_rejected_share: float | None
) -> dict[OffsetRange, TooManyRejectedError]:
    """Return the verdicts that reading these ranges again would only repeat.

    A range's messages stay the same, so a verdict stands until the reader, the limit or the program is another one.
    """
    judged = [part for part in parts if part.unfinished and part.breaker_verdict is not None]
    if not judged or max_rejected_share is None:
        return {}
    now = rules(batch, max_rejected_share)
    return {
        part.range: TooManyRejectedError(
            f"{part.breaker_verdict} Nothing of that has changed since, so the range was not read again; clear the "
            f"task to have it read and judged anew."
        )
        for part in judged
        if part.breaker_rules == now
    }


def rules(batch: Batch, max_rejected_share: float) -> str:
    """Return what a verdict on a range of the batch rests on beside the messages: program, reader and limit."""
    mapping = RecordMapping.of(KafkaTriggerDefinition.model_validate(batch.definition))
    return f"workorders {__version__}, {mapping!r}, max_rejected_share={max_rejected_share!r}"
