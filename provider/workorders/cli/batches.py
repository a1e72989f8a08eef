"""`workorders batches`: planned batches and their results."""

import shlex
from typing import Annotated, Any

import typer

from workorders.cli import times
from workorders.cli.connections import Database, connect
from workorders.cli.output import AsJson, Column, count, print_fields, print_json, print_table, safe
from workorders.core import triggers
from workorders.core.exceptions import one_line
from workorders.kafka.ledger import batches as store
from workorders.kafka.ledger import positions
from workorders.kafka.ledger.batches import Batch, BatchRange, BatchSummary
from workorders.kafka.ledger.positions import PartitionStatus

app = typer.Typer(no_args_is_help=True)

_COLUMNS = (
    Column("batch", number=True),
    Column("trigger"),
    Column("status"),
    Column("planned"),
    Column("dispatched"),
    Column("finished"),
    Column("partitions", number=True),
    Column("created", number=True),
    Column("rejected", number=True),
)
_RANGE_COLUMNS = (
    Column("partition"),
    Column("offsets"),
    Column("status"),
    Column("finished"),
    Column("created", number=True),
    Column("rejected", number=True),
)


@app.command("list")
def list_(
    trigger: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only batches of this trigger.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Number of batches.")] = 20,
    before: Annotated[
        int | None, typer.Option(metavar="BATCH", help="Only batches before this one.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List batches, newest first.

    A batch is `planned`, then `dispatched` if its ingest run exists, and `finished` if every message of its ranges has
    a work order. Ranges that an operator's decision superseded do not count. Created and rejected are the counts of
    the first ingest; a replay does not change them.

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
        print_json([_summary_json(batch) for batch in found])
        return
    print_table(_COLUMNS, [_cells(batch) for batch in found])
    if len(found) == limit:
        filters = [] if trigger is None else ["--trigger", trigger]
        next_page = ["workorders", "batches", "list", *filters, "--limit", str(limit), "--before", str(found[-1].id)]
        print(f"\nNext page: {shlex.join(next_page)}")


@app.command()
def show(
    batch: Annotated[int, typer.Argument(metavar="BATCH", help="Number of the batch.", show_default=False)],
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Show a batch, its ranges, and why one is unfinished.

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
    if as_json:
        print_json(_json(found, held))
    else:
        _print(found, held)


def _cells(batch: BatchSummary) -> tuple[str, ...]:
    return (
        str(batch.id),
        batch.trigger,
        _word(finished=batch.finished_at is not None, handed_over=batch.handed_over_at is not None),
        times.show(batch.planned_at),
        times.show(batch.handed_over_at),
        times.show(batch.finished_at),
        count(batch.partitions),
        count(batch.created),
        count(batch.rejected),
    )


def _word(*, finished: bool, handed_over: bool) -> str:
    if finished:
        return "finished"
    return "dispatched" if handed_over else "planned"


def _batch_word(batch: Batch) -> str:
    return _word(finished=not batch.unfinished, handed_over=batch.handed_over_at is not None)


def _range_word(part: BatchRange, held: PartitionStatus | None) -> str:
    if part.finished:
        return "finished"
    if part.superseded:
        return "superseded"
    return "stalled" if held is not None and held.status == "stalled" else "waiting"


def _print(batch: Batch, held: dict[tuple[str, int], PartitionStatus]) -> None:
    print_fields(
        [
            ("batch", str(batch.id)),
            ("trigger", batch.trigger.name),
            ("workflow", batch.trigger.workflow),
            ("status", _batch_word(batch)),
            ("planned", times.show(batch.planned_at)),
            ("dispatched", times.show(batch.handed_over_at)),
        ]
    )
    print()
    rows = []
    for part in batch.ranges:
        partition = part.range.partition
        rows.append(
            (
                f"{partition.topic} {partition.partition}",
                f"[{part.range.start}, {part.range.end})",
                _range_word(part, held.get((partition.topic, partition.partition))),
                times.show(part.finished_at),
                count(part.created, unknown=""),
                count(part.rejected, unknown=""),
            )
        )
    print_table(_RANGE_COLUMNS, rows)
    for row in held.values():
        if row.status == "stalled":
            print(safe(_stall(row)))
    for sentence in batch.supersessions:
        print(safe(sentence))


def _stall(row: PartitionStatus) -> str:
    reason = one_line(row.last_error or "no error was recorded")
    since, next_try = times.show(row.status_since), times.show(row.next_attempt_at)
    place = f"{row.topic} {row.partition}"
    return f"{place} is stalled since {since}, attempt {row.attempts}, next try {next_try}: {reason}"


def _summary_json(batch: BatchSummary) -> dict[str, Any]:
    return {
        "batch": batch.id,
        "trigger": batch.trigger,
        "status": _word(finished=batch.finished_at is not None, handed_over=batch.handed_over_at is not None),
        "planned_at": batch.planned_at,
        "handed_over_at": batch.handed_over_at,
        "finished_at": batch.finished_at,
        "partitions": batch.partitions,
        "created": batch.created,
        "rejected": batch.rejected,
    }


def _json(batch: Batch, held: dict[tuple[str, int], PartitionStatus]) -> dict[str, Any]:
    ranges = []
    for part in batch.ranges:
        partition = part.range.partition
        row = held.get((partition.topic, partition.partition))
        ranges.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "topic_id": partition.topic_id,
                "start": part.range.start,
                "end": part.range.end,
                "status": _range_word(part, row),
                "finished_at": part.finished_at,
                "created": part.created,
                "rejected": part.rejected,
                "existing": part.existing if part.finished else None,
                "superseded_by": part.superseded_by,
                "attempts": row.attempts if row else None,
                "next_try": row.next_attempt_at if row else None,
                "last_error": row.last_error if row else None,
            }
        )
    return {
        "batch": batch.id,
        "trigger": batch.trigger.name,
        "workflow": batch.trigger.workflow,
        "status": _batch_word(batch),
        "planned_at": batch.planned_at,
        "handed_over_at": batch.handed_over_at,
        "ranges": ranges,
    }
