"""`workorders runs`: list the attempts at work orders, and look at one."""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from workorders.cli.connections import connect
from workorders.cli.options import AsJson, Database, ListingById, argument, option, takes
from workorders.cli.output import show_one, show_page
from workorders.core.history import runs
from workorders.core.history.runs import RunRow, Step
from workorders.core.states import RunState
from workorders.visible_text import safe

app = typer.Typer(no_args_is_help=True)

_COLUMNS: Final = "id work_order_id workflow attempt shown_state actor reason started_at finished_at error_type error"
SHOWN_COLUMNS: Final[Mapping[type, str]] = {
    RunRow: "attempt generation id shown_state actor reason created_at started_at finished_at error_type error",
    Step: "name kind generation attempt finished_at result",
}
"""Of the tables of one run, and of one work order."""


@app.command("list")
@takes(listing=ListingById)
def list_(
    *,
    workflow: Annotated[str | None, option("NAME", "Only runs of this workflow.", "--workflow")] = None,
    state: Annotated[RunState | None, option("STATE", f"Only in this state: {', '.join(RunState)}.", "--state")] = None,
    work_order: Annotated[UUID | None, option("ID", "Only runs of this work order.", "--work-order")] = None,
    listing: ListingById,
) -> None:
    """List runs, newest first.

    A work order that waits for its first run has none.

    Examples:
      workorders runs list
      workorders runs list --workflow register_event --state failed
      workorders runs list --work-order 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f
    """
    filters: dict[str, Any] = {"workflow": workflow, "state": state, "work_order": work_order}
    with connect(listing.database) as connection:
        found = runs.list_runs(connection, **filters, before=listing.before, limit=listing.limit)
    show_page(RunRow, found, "runs list", listing, columns=_COLUMNS, **filters)


@app.command()
def show(
    id_: Annotated[UUID, argument("ID", "Id of the run.")], as_json: AsJson = False, database: Database = None
) -> None:
    """Show one run with its output, its error, its log, and the steps that were finished when it ended.

    Example:
      workorders runs show 019d0c5e-3f2a-7c1b-8a4e-1f6f0c9d2b3a
    """
    with connect(database) as connection:
        run = runs.get_run(connection, id_)
        finished = runs.list_steps(connection, run.work_order_id, until=run)
    show_one(run, as_json=as_json, columns=SHOWN_COLUMNS, steps=finished)
    if not as_json and (sentence := runs.describe_end(run.state, finished)):
        print(f"\n{safe(sentence)}")
