"""`workorders work-orders rerun` and `cancel`, and `workorders bulk`: one work order, or all that match."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from workorders import dag_ids
from workorders.cli.connections import connect, connect_to_write
from workorders.cli.options import (
    AsJson,
    Change,
    Database,
    Listing,
    OfTrigger,
    PreviewedChange,
    argument,
    option,
    parse_time,
    takes,
)
from workorders.cli.output import note, print_json, print_state_counts, show, show_one, show_page, show_progress
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.states import WorkOrderState

app = typer.Typer(no_args_is_help=True)

_WorkOrderId = Annotated[UUID | None, argument("ID", "Id of a single work order.")]
_Id = Annotated[int, argument("ID", "Number of the bulk operation.")]
_SINCE: Final = "Created since: 15m, 2h or 7d ago, or 2026-03-01T14:30."
_COLUMNS: Final = "id created_at kind state done skipped total filter actor account reason error"


def chosen(
    *,
    trigger: OfTrigger = None,
    workflow: Annotated[str | None, option("NAME", "Only for this workflow.", "--workflow")] = None,
    state: Annotated[
        WorkOrderState | None, option("STATE", f"Only in this state: {', '.join(WorkOrderState)}.", "--state")
    ] = None,
    rejection: Annotated[
        str | None, option("CODE", "Only rejected for this reason, such as not-json.", "--rejection")
    ] = None,
    since: Annotated[datetime | None, option("TIME", _SINCE, "--since", parser=parse_time)] = None,
    until: Annotated[datetime | None, option("TIME", "Created before this time.", "--until", parser=parse_time)] = None,
    stream: Annotated[
        str | None, option("TEXT", "Only streams with this prefix, such as orders/0@.", "--stream")
    ] = None,
    from_position: Annotated[
        int | None, option("N", "Only from this position of the stream.", "--from-position")
    ] = None,
    to_position: Annotated[int | None, option("N", "Only before this position of the stream.", "--to-position")] = None,
    ordering_key: Annotated[
        str | None, option("VALUE", "Only with this value of the ordering key.", "--ordering-key")
    ] = None,
    text: Annotated[
        str | None, option("WORDS", "Only with these words (or prefix*) in body or rejection.", "--text")
    ] = None,
) -> Filter:
    """Return the filter that the options of a command ask for, which are named after its fields."""
    return Filter(**locals())


@dataclass(frozen=True, kw_only=True)
class _Request(PreviewedChange):
    """How a job is run and recorded."""

    detach: Annotated[bool, typer.Option("--detach", help=f"Only queue it, for the Dag {dag_ids.MAINTENANCE}.")] = False


@dataclass(frozen=True, kw_only=True)
class _RerunRequest(_Request):
    """How a rerun is run and recorded."""

    from_start: Annotated[bool, typer.Option("--from-start", help="Execute every step again.")] = False


@takes(wanted=chosen, request=_RerunRequest)
def rerun(id_: _WorkOrderId = None, *, wanted: Filter, request: _RerunRequest) -> None:
    """Run work orders again, before all others.

    A rerun continues: it gets the results of finished steps, and executes only the others. With --from-start, it
    executes every step again; a work order that succeeded always starts there.

    Skips work orders that wait or run, and those whose input was erased. A rejected work order is validated again by
    its trigger's current definition: it gets an input and a run, or stays rejected with the new reason.

    Counts the work orders and asks for confirmation, unless you name one by its id. Exits with 1 if the one work order
    that you named was not changed.

    Examples:
      workorders work-orders rerun 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --reason "the registry was down"
      workorders work-orders rerun 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --from-start --reason "the label was wrong"
      workorders work-orders rerun --workflow admit --state failed --since 2h --dry-run
      workorders work-orders rerun --rejection too-large --trigger orders --reason "the limit was raised"
    """
    _start("rerun", id_, wanted, request, options={"from_start": True} if request.from_start else {})


@takes(wanted=chosen, request=_Request)
def cancel_work_orders(id_: _WorkOrderId = None, *, wanted: Filter, request: _Request) -> None:
    """Cancel runs that wait; what runs already is not touched.

    A work order that is cancelled can be rerun later. Counts the work orders and asks for confirmation, unless you name
    one by its id. Exits with 1 if the one work order that you named was not changed.

    Examples:
      workorders work-orders cancel 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --reason "sent by mistake"
      workorders work-orders cancel --trigger orders --since 1h --reason "the sender will send them again" --dry-run
    """
    _start("cancel", id_, wanted, request, options={})


@app.command("list")
@takes(listing=Listing)
def list_(*, listing: Listing) -> None:
    """List bulk operations, newest first, with their progress.

    Example:
      workorders bulk list
    """
    with connect(listing.database) as connection:
        found = jobs.list_jobs(connection, before=listing.before, limit=listing.limit)
    show_page(Job, found, "bulk list", listing, columns=_COLUMNS)


@app.command("show")
def show_job(id_: _Id, as_json: AsJson = False, database: Database = None) -> None:
    """Show a bulk operation, its progress, and its error.

    Example:
      workorders bulk show 7
    """
    with connect(database) as connection:
        show_one(jobs.get_job(connection, id_), as_json=as_json)


@app.command()
def resume(id_: _Id, as_json: AsJson = False, database: Database = None) -> None:
    """Continue a bulk operation that waits, failed, or is orphaned.

    Exits with 1 if the one work order that it names was not changed.

    Example:
      workorders bulk resume 7
    """
    with connect_to_write(database) as connection:
        job = jobs.get_job(connection, id_)
        connection.commit()
        _run(connection, job, as_json=as_json)


@app.command("cancel")
@takes(change=Change)
def cancel_job(id_: _Id, *, change: Change) -> None:
    """Cancel a bulk operation; its finished steps remain.

    Example:
      workorders bulk cancel 7 --reason "the wrong filter"
    """
    with connect_to_write(change.database) as connection:
        job = jobs.get_job(connection, id_)
        connection.commit()
        change.confirm(f"{job} It will not continue.")
        change.record(connection, "bulk cancel", bulk_operation=id_)
        jobs.cancel_job(connection, id_)
        connection.commit()
        print(jobs.get_job(connection, id_))


def _start(kind: str, id_: UUID | None, wanted: Filter, request: _Request, *, options: Mapping[str, Any]) -> None:
    if id_ is not None:
        wanted = replace(wanted, selected=(id_,))
    with connect_to_write(request.database) as connection:
        if request.dry_run:
            counts = jobs.count_matching(connection, wanted)
            if request.as_json:
                print_json({"kind": kind, "filter": wanted, "total": sum(counts.values()), "by_state": counts})
            else:
                print_state_counts(counts)
            note(f"This was a dry run of {kind}; nothing was changed.")
            return
        if wanted.selected is None:
            if not request.yes and not request.as_json:
                print_state_counts(jobs.count_matching(connection, wanted))
                connection.commit()
            request.confirm()
        job = jobs.create_job(connection, kind, wanted, request.by, options=options)
        connection.commit()
        if not request.detach:
            _run(connection, job, as_json=request.as_json)
            return
    note(f"{_named(job)} is queued; the Dag {dag_ids.MAINTENANCE} runs it unless it is paused, or {_resume(job)}.")
    if request.as_json:
        print_json(job)


def _run(connection: Connection, job: Job, *, as_json: bool) -> None:
    """Run a bulk operation, and print its progress; exit with 1 if a single work order was named and not changed."""
    note(f"{_named(job)} has {job.total:,} work orders; {_resume(job)} continues it if interrupted.")
    job = runner.run_job(connection, job.id, progress=lambda job: show_progress(job.looked_at, job.total))
    show(job, as_json=as_json)
    if len(job.filter.selected or ()) == 1 and not job.done:
        raise typer.Exit(1)


def _named(job: Job) -> str:
    return f"Bulk operation {job.id} ({job.kind})"


def _resume(job: Job) -> str:
    return f"`workorders bulk resume {job.id}`"
