"""`workorders work-orders rerun`, `cancel`, `export`: one work order, or all that match, as a job that can be seen."""

from pathlib import Path
from typing import Annotated, Any

import typer

from workorders.cli import filters
from workorders.cli.account import account
from workorders.cli.connections import Database, connect_to_write
from workorders.cli.jobs import run
from workorders.cli.output import AsJson, Column, count, note, print_json, print_table
from workorders.core.bulk import capacity, jobs
from workorders.core.bulk import export as exports
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.states import WorkOrderState

_Why = Annotated[
    str | None,
    typer.Option(metavar="TEXT", show_default=False, help="Reason, which is recorded; required without --dry-run."),
]
_Who = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default=False, help="Name of the person who asks; your account if not given."),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the work orders and change nothing.")]
_Detach = Annotated[
    bool,
    typer.Option("--detach", help="Only queue the job, for the Dag workorders_jobs."),
]


@filters.as_id_and_options
def rerun(
    wanted: Filter,
    *,
    reason: _Why = None,
    actor: _Who = None,
    dry_run: _DryRun = False,
    detach: _Detach = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Run work orders again, before all others.

    Skips work orders that wait or run, and those whose input was erased. A rejected work order is validated again by
    its trigger's current definition: it gets an input and a run, or stays rejected with the new reason.

    \b
    Examples:
      workorders work-orders rerun 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --reason "the registry was down"
      workorders work-orders rerun --workflow admit --state failed --since 2h --dry-run
      workorders work-orders rerun --rejection too-large --trigger orders --reason "the limit was raised"
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    _bulk("rerun", wanted, actor, reason, dry_run=dry_run, detach=detach, as_json=as_json, database=database)


@filters.as_id_and_options
def cancel(
    wanted: Filter,
    *,
    reason: _Why = None,
    actor: _Who = None,
    dry_run: _DryRun = False,
    detach: _Detach = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Cancel runs that wait; what runs already is not touched.

    A work order that is cancelled can be rerun later.

    \b
    Examples:
      workorders work-orders cancel 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --reason "sent by mistake"
      workorders work-orders cancel --trigger orders --since 1h --reason "the sender will send them again" --dry-run
    """  # noqa: D301 - as above
    _bulk("cancel", wanted, actor, reason, dry_run=dry_run, detach=detach, as_json=as_json, database=database)


@filters.as_options
def export(
    wanted: Filter,
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="New file, created when it is complete.", show_default=False)
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORM", show_default=False, help="Format jsonl or csv; the file's suffix if not given."
        ),
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, which is recorded.")] = "an export",
    actor: _Who = None,
    dry_run: _DryRun = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Only queue the job, for `jobs resume` on this machine.")
    ] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Write work orders to a file of JSON Lines or CSV, the oldest first.

    \b
    Examples:
      workorders work-orders export failed.jsonl --state failed --since 7d
      workorders work-orders export ward.csv --text "ward W13" --trigger orders
    """  # noqa: D301 - as above
    options = exports.export_options(file, format_)
    with connect_to_write(database) as connection:
        if dry_run:
            _show_counts(connection, "export", wanted, as_json=as_json)
            return
        me = account()
        job = jobs.create_job(
            connection, "export", wanted, actor=actor or me, reason=reason, options=options, account=me
        )
        connection.commit()
        run(connection, job, detach=detach, as_json=as_json, file=file)


def _bulk(
    kind: str,
    wanted: Filter,
    actor: str | None,
    reason: str | None,
    *,
    dry_run: bool,
    detach: bool,
    as_json: bool,
    database: str | None,
) -> None:
    if not dry_run and not (reason and reason.strip()):
        raise typer.BadParameter("expected the reason, which is kept; or --dry-run.", param_hint="--reason")
    with connect_to_write(database) as connection:
        if dry_run:
            _show_counts(connection, kind, wanted, as_json=as_json)
            return
        me = account()
        job = jobs.create_job(connection, kind, wanted, actor=actor or me, reason=reason or "", account=me)
        connection.commit()
        run(connection, job, detach=detach, as_json=as_json)


def _show_counts(connection: Connection, kind: str, wanted: Filter, *, as_json: bool) -> None:
    counts = jobs.count_matching(connection, wanted)
    total = sum(counts.values())
    workflows = capacity.capacity_for(connection, wanted) if kind == "rerun" else []
    if as_json:
        shown: dict[str, Any] = {"kind": kind, "filter": wanted.to_json(), "total": total, "by_state": counts}
        if kind == "rerun":
            shown["capacity"] = {at.workflow: at.capacity.remaining for at in workflows}
        print_json(shown)
        return
    rows = [(state, count(counts[state])) for state in WorkOrderState if state in counts]
    print_table((Column("state"), Column("work orders", number=True)), [*rows, ("total", count(total))])
    for at in workflows:
        note(str(at))
    note(f"This was a dry run of {kind}; nothing was changed.")
