"""`workorders work-orders rerun`, `cancel`, `export`: one work order, or all that match, as a job that can be seen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from workorders import dag_ids
from workorders.cli import filters
from workorders.cli.account import account
from workorders.cli.connections import connect_to_write
from workorders.cli.jobs import run
from workorders.cli.options import Actor, AsJson, Database, DryRun, argument, option, takes
from workorders.cli.output import note, print_json, print_state_counts
from workorders.core.bulk import capacity, jobs
from workorders.core.bulk import export as exports
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection

_Id = Annotated[UUID | None, argument("ID", "Id of a single work order.")]


@dataclass(frozen=True, kw_only=True)
class _Request:
    """How a job is run and recorded."""

    reason: Annotated[
        str | None, option("TEXT", "Reason, which is recorded; required without --dry-run.", "--reason")
    ] = None
    actor: Actor = None
    dry_run: DryRun = False
    detach: Annotated[
        bool, typer.Option("--detach", help=f"Only queue the job, for the Dag {dag_ids.MAINTENANCE}.")
    ] = False
    as_json: AsJson = False
    database: Database = None


@dataclass(frozen=True, kw_only=True)
class _RerunRequest(_Request):
    """How a rerun is run and recorded."""

    from_start: Annotated[bool, typer.Option("--from-start", help="Execute every step again.")] = False


@dataclass(frozen=True, kw_only=True)
class _ExportRequest(_Request):
    """How an export is run and recorded."""

    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, which is recorded.")] = "an export"
    detach: Annotated[bool, typer.Option("--detach", help="Only queue the job, for `jobs resume` on this machine.")] = (
        False
    )


@takes(wanted=filters.chosen, request=_RerunRequest)
def rerun(id_: _Id = None, *, wanted: Filter, request: _RerunRequest) -> None:
    """Run work orders again, before all others.

    A rerun continues: it gets the results of finished steps, and executes only the others. With --from-start, it
    executes every step again; a work order that succeeded always starts there.

    Skips work orders that wait or run, and those whose input was erased. A rejected work order is validated again by
    its trigger's current definition: it gets an input and a run, or stays rejected with the new reason.

    \b
    Examples:
      workorders work-orders rerun 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --reason "the registry was down"
      workorders work-orders rerun 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --from-start --reason "the label was wrong"
      workorders work-orders rerun --workflow admit --state failed --since 2h --dry-run
      workorders work-orders rerun --rejection too-large --trigger orders --reason "the limit was raised"
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    options = {"from_start": True} if request.from_start else None
    _start("rerun", replace(wanted, id=id_), request, options=options)


@takes(wanted=filters.chosen, request=_Request)
def cancel(id_: _Id = None, *, wanted: Filter, request: _Request) -> None:
    """Cancel runs that wait; what runs already is not touched.

    A work order that is cancelled can be rerun later.

    \b
    Examples:
      workorders work-orders cancel 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --reason "sent by mistake"
      workorders work-orders cancel --trigger orders --since 1h --reason "the sender will send them again" --dry-run
    """  # noqa: D301 - as above
    _start("cancel", replace(wanted, id=id_), request)


@takes(wanted=filters.chosen, request=_ExportRequest)
def export(
    file: Annotated[Path, argument("FILE", "New file, created when it is complete.")],
    *,
    format_: Annotated[
        str | None, option("FORM", "Format jsonl or csv; the file's suffix if not given.", "--format")
    ] = None,
    wanted: Filter,
    request: _ExportRequest,
) -> None:
    """Write work orders to a JSON Lines or CSV file.

    The oldest is the first.

    \b
    Examples:
      workorders work-orders export failed.jsonl --state failed --since 7d
      workorders work-orders export ward.csv --text "ward W13" --trigger orders
    """  # noqa: D301 - as above
    _start("export", wanted, request, options=exports.export_options(file, format_), file=file)


def _start(
    kind: str,
    wanted: Filter,
    request: _Request,
    *,
    options: Mapping[str, Any] | None = None,
    file: Path | None = None,
) -> None:
    reason = request.reason or ""
    if not request.dry_run and not reason.strip():
        raise typer.BadParameter("expected the reason, which is recorded; or --dry-run.", param_hint="--reason")
    with connect_to_write(request.database) as connection:
        if request.dry_run:
            _show_counts(connection, kind, wanted, as_json=request.as_json)
            return
        me = account()
        job = jobs.create_job(
            connection, kind, wanted, actor=request.actor or me, reason=reason, options=options, account=me
        )
        connection.commit()
        run(connection, job, detach=request.detach, as_json=request.as_json, file=file)


def _show_counts(connection: Connection, kind: str, wanted: Filter, *, as_json: bool) -> None:
    counts = jobs.count_matching(connection, wanted)
    workflows = capacity.capacity_for(connection, wanted) if kind == "rerun" else []
    if as_json:
        shown = {"kind": kind, "filter": wanted.to_json(), "total": sum(counts.values()), "by_state": counts}
        if kind == "rerun":
            shown["capacity"] = {at.workflow: at.capacity.remaining for at in workflows}
        print_json(shown)
        return
    print_state_counts(counts)
    for at in workflows:
        note(str(at))
    note(f"This was a dry run of {kind}; nothing was changed.")
