"""`workorders batches`: planned batches and their results."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer

from workorders import times
from workorders.cli.connections import connect
from workorders.cli.options import AsJson, BeforeNumber, Database, Limit, OfTrigger, argument
from workorders.cli.output import Column, count, json_object, print_fields, print_json, print_page, print_table
from workorders.core import triggers
from workorders.core.exceptions import one_line
from workorders.kafka.ledger import batches as store
from workorders.kafka.ledger import positions
from workorders.kafka.ledger.batches import Batch, BatchRange, BatchSummary
from workorders.kafka.ledger.positions import PartitionStatus
from workorders.visible_text import safe

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    trigger: OfTrigger = None,
    limit: Limit = 20,
    before: BeforeNumber = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List batches, newest first.

    A batch is `planned`, then `dispatched` if its ingest run exists, and `finished` if every message of its ranges has
    a work order. Ranges that an operator's decision superseded do not count. Created, rejected, and filtered are the
    counts of the first ingest; a replay does not change them.

    \b
    Examples:
      workorders batches list
      workorders batches list --trigger orders --limit 100
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        if trigger is not None:
            triggers.find(connection, trigger)  # an unknown name is an error and not an empty list
        found = store.summaries(connection, trigger, before=before, limit=limit)
    if as_json:
        print_json([json_object(batch, id="batch") | {"status": _status(batch)} for batch in found])
    else:
        print_page(_COLUMNS, found, "batches list", limit=limit, trigger=trigger)


@app.command()
def show(
    batch: Annotated[int, argument("BATCH", "Number of the batch.")], as_json: AsJson = False, database: Database = None
) -> None:
    """Show a batch, its ranges, and why one is unfinished.

    To replay a batch, clear the task `create_work_orders` of its Dag run. A batch grows while messages arrive;
    afterwards, its ranges that follow one another are shown as one.

    \b
    Example:
      workorders batches show 17
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        found = store.load(connection, batch)
        held = {
            (row.topic, row.partition): row
            for row in positions.status(connection, found.trigger.name)
            if row.batch_id == found.id
        }
    ranges = [_ShownRange(range_, held.get(range_.range.partition.topic_partition)) for range_ in found.ranges]
    if as_json:
        print_json(_json(found, ranges))
    else:
        _print(found, ranges)


class _ShownRange(NamedTuple):
    """A range, and its partition if this batch holds it."""

    found: BatchRange
    row: PartitionStatus | None


def _print(batch: Batch, ranges: Sequence[_ShownRange]) -> None:
    print_fields(
        [
            ("batch", batch.id),
            ("trigger", batch.trigger.name),
            ("workflow", batch.trigger.workflow),
            ("status", _status(batch)),
            ("planned", batch.planned_at),
            ("dispatched", batch.dispatched_at),
            ("dag run", batch.run_id),
        ]
    )
    print()
    print_table(_RANGE_COLUMNS, ranges)
    for _, row in ranges:
        if row is not None and row.status == "stalled":
            print(safe(_stall(row)))
    for found, _ in ranges:
        if found.unfinished and found.progress:
            print(safe(f"{found.range}: {found.progress}."))
    for sentence in batch.supersessions:
        print(safe(sentence))


def _status(batch: Batch | BatchSummary) -> str:
    if batch.finished_at is not None if isinstance(batch, BatchSummary) else not batch.unfinished:
        return "finished"
    return "planned" if batch.dispatched_at is None else "dispatched"


def _range_status(shown: _ShownRange) -> str:
    if shown.found.finished:
        return "finished"
    if shown.found.superseded:
        return "superseded"
    return "stalled" if shown.row is not None and shown.row.status == "stalled" else "waiting"


def _filtered(shown: _ShownRange) -> int | None:
    return shown.found.filtered if shown.found.finished else None


def _stall(row: PartitionStatus) -> str:
    reason = one_line(row.last_error or "no error was recorded")
    since, next_try = times.show(row.status_since), times.show(row.next_attempt_at)
    place = f"{row.topic} {row.partition}"
    return f"{place} is stalled since {since}, attempt {row.attempts}, next try {next_try}: {reason}"


def _json(batch: Batch, ranges: Sequence[_ShownRange]) -> dict[str, Any]:
    return {
        "batch": batch.id,
        "dag_run": batch.run_id,
        "trigger": batch.trigger.name,
        "workflow": batch.trigger.workflow,
        "status": _status(batch),
        "planned_at": batch.planned_at,
        "dispatched_at": batch.dispatched_at,
        "ranges": [_range_json(shown) for shown in ranges],
    }


def _range_json(shown: _ShownRange) -> dict[str, Any]:
    found, row = shown
    return {
        "topic": found.range.partition.topic,
        "partition": found.range.partition.partition,
        "topic_id": found.range.partition.topic_id,
        "start": found.range.start,
        "end": found.range.end,
        "status": _range_status(shown),
        "finished_at": found.finished_at,
        "created": found.created,
        "rejected": found.rejected,
        "existing": found.existing if found.finished else None,
        "filtered": _filtered(shown),
        "superseded_by": found.superseded_by,
        "attempts": row.attempts if row else None,
        "next_try": row.next_attempt_at if row else None,
        "last_error": row.last_error if row else None,
    }


_COLUMNS: Sequence[Column[BatchSummary]] = (
    Column("batch", lambda batch: batch.id, number=True),
    Column("trigger", lambda batch: batch.trigger),
    Column("status", _status),
    Column("planned", lambda batch: batch.planned_at),
    Column("dispatched", lambda batch: batch.dispatched_at),
    Column("finished", lambda batch: batch.finished_at),
    Column("partitions", lambda batch: count(batch.partitions), number=True),
    Column("created", lambda batch: count(batch.created), number=True),
    Column("rejected", lambda batch: count(batch.rejected), number=True),
    Column("filtered", lambda batch: count(batch.filtered), number=True),
)
_RANGE_COLUMNS: Sequence[Column[_ShownRange]] = (
    Column("partition", lambda shown: f"{shown.found.range.partition.topic} {shown.found.range.partition.partition}"),
    Column("offsets", lambda shown: f"[{shown.found.range.start}, {shown.found.range.end})"),
    Column("status", _range_status),
    Column("finished", lambda shown: shown.found.finished_at),
    Column("created", lambda shown: count(shown.found.created, unknown=""), number=True),
    Column("rejected", lambda shown: count(shown.found.rejected, unknown=""), number=True),
    Column("filtered", lambda shown: count(_filtered(shown), unknown=""), number=True),
)
