"""`workorders batches`: planned batches and their results."""

from typing import Annotated, Final

import typer

from workorders.cli.connections import connect
from workorders.cli.options import AsJson, Database, Listing, OfTrigger, argument, takes
from workorders.cli.output import show_fields, show_page
from workorders.core import triggers
from workorders.kafka.ledger import batches as store
from workorders.kafka.ledger.batches import BatchRange, BatchSummary
from workorders.visible_text import safe

app = typer.Typer(no_args_is_help=True)

_RANGE_COLUMNS: Final = "range finished_at created rejected filtered superseded_by last_error"


@app.command("list")
@takes(listing=Listing)
def list_(*, trigger: OfTrigger = None, listing: Listing) -> None:
    """List batches, newest first.

    A batch is finished if every message of its ranges has a work order. Ranges that an operator's decision superseded
    do not count. Created, rejected, and filtered are the counts of the first ingest; a replay does not change them.

    Examples:
      workorders batches list
      workorders batches list --trigger orders --limit 100
    """
    with connect(listing.database) as connection:
        if trigger is not None:
            triggers.find(connection, trigger)  # an unknown name is an error and not an empty list
        found = store.summaries(connection, trigger, before=listing.before, limit=listing.limit)
    show_page(BatchSummary, found, "batches list", listing, trigger=trigger)


@app.command()
def show(
    batch: Annotated[int, argument("BATCH", "Number of the batch.")], as_json: AsJson = False, database: Database = None
) -> None:
    """Show a batch, its ranges, and why one is unfinished.

    To replay a batch, clear the task `create_work_orders` of its Dag run. A batch grows while messages arrive;
    afterwards, its ranges that follow one another are shown as one.

    Example:
      workorders batches show 17
    """
    with connect(database) as connection:
        found = store.load(connection, batch)
    named = {
        "id": found.id,
        "trigger": found.trigger.name,
        "workflow": found.trigger.workflow,
        "status": "unfinished" if found.unfinished else "finished",
        "planned_at": found.planned_at,
        "dag_run": found.run_id,
        "ranges": found.ranges,
    }
    show_fields(named, as_json=as_json, columns={BatchRange: _RANGE_COLUMNS})
    if not as_json:
        progress = [f"{range_.range}: {range_.progress}." for range_ in found.unfinished if range_.progress]
        for sentence in (*progress, *found.supersessions):
            print(safe(sentence))
