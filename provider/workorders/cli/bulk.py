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
    str | None, typer.Option(metavar="TEXT", show_default=False, help="The reason, which is kept; needed to do it.")
]
_Who = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", show_default=False, help="Who asks; your account if not given, which is kept as well."
    ),
]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Count what matches, and change nothing.")]
_Detach = Annotated[
    bool,
    typer.Option("--detach", help="Record the job only, for the DAG workorders_jobs or `jobs resume`."),
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
    """Give work orders one more run, which goes before all others.

    A work order that waits or runs is left as it is, and so is one whose input was wiped. A rejected one is judged
    again, by its trigger's definition of now: it gets its input and a run, or stays rejected with the reason of now.

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
        Path, typer.Argument(metavar="FILE", help="New file; it appears when it is whole.", show_default=False)
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORM", show_default=False, help="jsonl or csv; the file's ending, if not given."
        ),
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason, which is kept with the job.")] = "an export",
    actor: _Who = None,
    dry_run: _DryRun = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Record the job only; `jobs resume` on this machine works it through.")
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
    rooms = capacity.capacity_for(connection, wanted) if kind == "rerun" else []
    if as_json:
        shown: dict[str, Any] = {"kind": kind, "filter": wanted.to_json(), "total": total, "by_state": counts}
        if kind == "rerun":
            shown["room"] = {at.workflow: at.capacity.remaining for at in rooms}
        print_json(shown)
        return
    rows = [(state, count(counts[state])) for state in WorkOrderState if state in counts]
    print_table((Column("state"), Column("work orders", number=True)), [*rows, ("total", count(total))])
    for at in rooms:
        note(str(at))
    note(f"This was a dry run of {kind}; nothing was changed.")
