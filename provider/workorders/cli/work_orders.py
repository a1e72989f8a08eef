"""`workorders work-orders`: find them, count them, look at one."""

from typing import Annotated

import typer

from workorders import times
from workorders.cli import bulk, export, filters, work_order
from workorders.cli.connections import connect
from workorders.cli.options import AsJson, Database, ListingById, takes
from workorders.cli.output import note, print_json, print_state_counts, show_page
from workorders.core.history import search_index, work_orders
from workorders.core.history import state_counts as stored
from workorders.core.history.filters import Filter
from workorders.core.history.work_orders import WorkOrderSummary
from workorders.core.ids import time_of
from workorders.core.states import WorkOrderState

app = typer.Typer(no_args_is_help=True)

app.command("show")(work_order.show)
app.command("rerun")(bulk.rerun)
app.command("cancel")(bulk.cancel_work_orders)
app.command("export")(export.export)


@app.command("list")
@takes(wanted=filters.chosen, listing=ListingById)
def list_(*, wanted: Filter, listing: ListingById) -> None:
    """List work orders, newest first.

    A work order must match all filters. A stream is an ordered source within a trigger, and a position is a place in
    it. In Kafka they are a partition, called topic/partition@topic-id, and an offset.

    Examples:
      workorders work-orders list
      workorders work-orders list --state rejected --since 24h
      workorders work-orders list --rejection not-json --trigger orders
      workorders work-orders list --text "PAT-000123 admission" --since 7d
      workorders work-orders list --stream orders/0@ --from-position 100 --to-position 200
      workorders work-orders list --workflow admit --ordering-key PAT-000123
      workorders work-orders list --since 2026-03-01T14:00 --until 2026-03-01T15:00 --json
    """
    with connect(listing.database) as connection:
        found = work_orders.list_work_orders(connection, wanted, before=listing.before, limit=listing.limit)
        filled_until = None if wanted.text is None else search_index.indexed_up_to(connection)
    if filled_until is not None:
        until_when = times.show(time_of(filled_until))
        note(f"Texts are searched up to {until_when}; words of newer work orders follow in some minutes.")
    options = {"rejection" if name == "reason" else name: value for name, value in wanted.to_json().items()}
    show_page(WorkOrderSummary, found, "work-orders list", listing, **options)


@app.command("count")
@takes(wanted=filters.chosen)
def count_(
    *,
    wanted: Filter,
    latest: Annotated[
        bool, typer.Option("--latest", help="Latest stored numbers, of a trigger or a workflow.")
    ] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Count work orders by state.

    Reads every work order that matches. With many millions, limit the time, or print the latest stored numbers,
    which are some minutes old.

    Examples:
      workorders work-orders count
      workorders work-orders count --trigger orders --since 24h
      workorders work-orders count --latest
    """
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
        print_state_counts(counts)
