"""`workorders runs`: list the attempts at work orders, and look at one."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import typer

from workorders.cli import times
from workorders.cli.connections import Database, connect
from workorders.cli.output import AsJson, Column, print_fields, print_json, print_table, safe
from workorders.core.history import runs
from workorders.core.history.runs import RunDetails, RunRow
from workorders.core.states import RunState

app = typer.Typer(no_args_is_help=True)

_COLUMNS: Final = (
    Column("id"),
    Column("work order"),
    Column("workflow"),
    Column("run", number=True),
    Column("state"),
    Column("actor"),
    Column("reason"),
    Column("started"),
    Column("seconds", number=True),
    Column("error"),
)
_ERROR_CHARACTERS: Final = 80


@app.command("list")
def list_(  # noqa: PLR0917 - the filters of one query, all named where people type them
    workflow: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Only runs of this workflow.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", show_default=False, help=f"Only in this state: {', '.join(RunState)}."),
    ] = None,
    work_order: Annotated[
        UUID | None, typer.Option(metavar="ID", show_default=False, help="Only runs of this work order.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Number of runs.")] = 20,
    before: Annotated[
        UUID | None, typer.Option(metavar="ID", show_default=False, help="Only runs before this one.")
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List runs, newest first.

    A work order that waits for its first run has none.

    \b
    Examples:
      workorders runs list
      workorders runs list --workflow register_event --state failed
      workorders runs list --work-order 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    if state is not None and state not in [*RunState]:
        raise typer.BadParameter(f"expected one of {', '.join(RunState)}; got {state!r}.", param_hint="--state")
    with connect(database) as connection:
        found = runs.list_runs(
            connection, workflow=workflow, state=state, work_order=work_order, before=before, limit=limit
        )
    if as_json:
        print_json(found)
        return
    print_table(_COLUMNS, [_cells(run) for run in found])
    if len(found) == limit:
        print(f"\nThe next ones: the same command with --before {found[-1].id}")


@app.command()
def show(
    id_: Annotated[UUID, typer.Argument(metavar="ID", help="Id of the run.", show_default=False)],
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Show one run with its output, its error and its log.

    \b
    Example:
      workorders runs show 019d0c5e-3f2a-7c1b-8a4e-1f6f0c9d2b3a
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        run = runs.get_run(connection, id_)
    if as_json:
        print_json(run)
    else:
        _print(run)


def _cells(run: RunRow) -> tuple[str, ...]:
    error = f"{run.error_type or ''}: {run.error}" if run.error else run.error_type or ""
    return (
        str(run.id),
        str(run.work_order_id),
        run.workflow,
        str(run.attempt),
        run.state,
        run.actor or "",
        run.reason or "",
        times.show(run.started_at),
        _seconds(run.started_at, run.finished_at),
        error.partition("\n")[0][:_ERROR_CHARACTERS],
    )


def _seconds(started: datetime | None, finished: datetime | None) -> str:
    return f"{(finished - started).total_seconds():.3f}" if started and finished else ""


def _print(run: RunDetails) -> None:
    print_fields(
        [
            ("run", str(run.id)),
            ("work order", str(run.work_order_id)),
            ("workflow", run.workflow),
            ("attempt", f"{run.attempt}, automatic retry {run.retry}" if run.retry else str(run.attempt)),
            ("state", run.state),
            ("due", times.show(run.not_before) if run.state == "available" else ""),
            ("claimed", times.show(run.claimed_at)),
            ("started", times.show(run.started_at)),
            ("finished", times.show(run.finished_at)),
            ("seconds", _seconds(run.started_at, run.finished_at)),
            ("heartbeat", "" if run.finished_at else times.show(run.heartbeat_at)),
            ("actor", run.actor or ""),
            ("reason", run.reason or ""),
            ("error", f"{run.error_type or ''}: {run.error}" if run.error else run.error_type or ""),
        ]
    )
    for title, text in (("output", run.output), ("log, shortened" if run.log_truncated else "log", run.log)):
        if text:
            print(f"\n{title}:\n{safe(text)}")
