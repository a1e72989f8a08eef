"""`workorders work-orders`: find them, count them, look at one."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from workorders.cli import bulk, filters, times, work_order
from workorders.cli.connections import Database, connect
from workorders.cli.output import AsJson, Column, count, note, print_json, print_table
from workorders.core.history import search_index, work_orders
from workorders.core.history import state_counts as stored
from workorders.core.history.filters import Filter
from workorders.core.history.work_orders import WorkOrderSummary
from workorders.core.states import WorkOrderState

app = typer.Typer(no_args_is_help=True)

_COLUMNS = (
    Column("id"),
    Column("created"),
    Column("trigger"),
    Column("workflow"),
    Column("state"),
    Column("stream"),
    Column("position", number=True),
    Column("reason"),
)

app.command("show")(work_order.show)
app.command("rerun")(bulk.rerun)
app.command("cancel")(bulk.cancel)
app.command("export")(bulk.export)


@app.command("list")
@filters.as_options
def list_(
    wanted: Filter,
    *,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Number of work orders.")] = 20,
    before: Annotated[
        UUID | None, typer.Option(metavar="ID", show_default=False, help="Only work orders before this one.")
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List work orders, newest first.

    A work order must match all filters. A stream is an ordered source within a trigger, and a position is a place in
    it. In Kafka they are a partition, called topic/partition@topic-id, and an offset.

    \b
    Examples:
      workorders work-orders list
      workorders work-orders list --state rejected --since 24h
      workorders work-orders list --reason not-json --trigger orders
      workorders work-orders list --text "PAT-000123 admission" --since 7d
      workorders work-orders list --stream orders/0@ --from-position 100 --to-position 200
      workorders work-orders list --since 2026-03-01T14:00 --until 2026-03-01T15:00 --json
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        found = work_orders.list_work_orders(connection, wanted, before=before, limit=limit)
        filled_until = None if wanted.text is None else search_index.indexed_up_to(connection)
    if filled_until is not None:
        until_when = datetime.fromtimestamp((filled_until.int >> 80) / 1000, UTC)
        note(f"Texts are searched up to {times.show(until_when)}; words of newer work orders follow in some minutes.")
    if as_json:
        print_json([_summary_json(work_order) for work_order in found])
        return
    print_table(_COLUMNS, [_cells(work_order) for work_order in found])
    if len(found) == limit:
        print(f"\nNext page: {_next_page(wanted, found[-1].id, limit)}")


@app.command("count")
@filters.as_options
def count_(
    wanted: Filter,
    *,
    latest: Annotated[
        bool,
        typer.Option("--latest", help="Latest stored numbers, of a trigger or a workflow."),
    ] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Count work orders by state.

    Reads every work order that matches. With many millions, limit the time, or print the latest stored numbers,
    which are some minutes old.

    \b
    Examples:
      workorders work-orders count
      workorders work-orders count --trigger orders --since 24h
      workorders work-orders count --latest
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    if latest and wanted != Filter(trigger=wanted.trigger, workflow=wanted.workflow):
        raise typer.BadParameter("it goes with --trigger and --workflow only.", param_hint="--latest")
    with connect(database) as connection:
        if latest:
            kept = stored.latest_counts(connection, trigger=wanted.trigger, workflow=wanted.workflow)
            counts = kept.by_state
            note(f"Counted at {times.show(kept.counted_at)}." if kept.counted_at else "They were not counted yet.")
        else:
            counts = work_orders.count_by_state(connection, wanted)
    if as_json:
        print_json({state.value: counts.get(state, 0) for state in WorkOrderState})
    else:
        rows = [(name, count(counts[name])) for name in WorkOrderState if name in counts]
        print_table(
            (Column("state"), Column("work orders", number=True)), [*rows, ("total", count(sum(counts.values())))]
        )


def _next_page(wanted: Filter, last: UUID, limit: int) -> str:
    options: Sequence[tuple[str, object]] = (
        ("--trigger", wanted.trigger),
        ("--workflow", wanted.workflow),
        ("--state", wanted.state),
        ("--rejection", wanted.reason),
        # Not as it was typed: "2h" would mean another time on the next page.
        ("--since", wanted.since and wanted.since.isoformat()),
        ("--until", wanted.until and wanted.until.isoformat()),
        ("--stream", wanted.stream),
        ("--from-position", wanted.from_position),
        ("--to-position", wanted.to_position),
        ("--text", wanted.text),
        ("--limit", limit),
        ("--before", last),
    )
    words = [word for name, value in options if value is not None for word in (name, str(value))]
    return shlex.join(["workorders", "work-orders", "list", *words])


def _cells(work_order: WorkOrderSummary) -> tuple[str, ...]:
    return (
        str(work_order.id),
        times.show(work_order.created_at),
        work_order.trigger or "?",
        work_order.workflow or "?",
        work_order.state,
        work_order.stream or "",
        "" if work_order.position is None else str(work_order.position),
        work_order.reason or "",
    )


def _summary_json(work_order: WorkOrderSummary) -> dict[str, Any]:
    return {
        "id": work_order.id,
        "trigger": work_order.trigger,
        "workflow": work_order.workflow,
        "state": work_order.state,
        "created_at": work_order.created_at,
        "stream": work_order.stream,
        "position": work_order.position,
        "reason": work_order.reason,
    }
