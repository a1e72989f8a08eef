"""`workorders jobs`: reruns, cancels and exports under way, and how they ended."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from workorders.cli import times
from workorders.cli.account import signed
from workorders.cli.connections import Database, connect, connect_to_write
from workorders.cli.output import AsJson, Column, count, note, print_fields, print_json, print_table
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.postgres.connection import Connection

app = typer.Typer(no_args_is_help=True)

_Id = Annotated[int, typer.Argument(metavar="ID", help="Number of the job.", show_default=False)]

_COLUMNS = (
    Column("id", number=True),
    Column("created"),
    Column("kind"),
    Column("state"),
    Column("done", number=True),
    Column("skipped", number=True),
    Column("total", number=True),
    Column("filter"),
    Column("actor"),
    Column("error"),
)


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Number of jobs.")] = 20,
    before: Annotated[
        int | None, typer.Option(metavar="ID", show_default=False, help="Only jobs before this one.")
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List bulk jobs, newest first, with their progress.

    \b
    Example:
      workorders jobs list
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        found = jobs.list_jobs(connection, before=before, limit=limit)
    if as_json:
        print_json([as_json_object(job) for job in found])
        return
    print_table(_COLUMNS, [_cells(job) for job in found])


@app.command()
def show(id_: _Id, as_json: AsJson = False, database: Database = None) -> None:
    """Show a bulk job, its progress, and its error.

    \b
    Example:
      workorders jobs show 7
    """  # noqa: D301 - as above
    with connect(database) as connection:
        job = jobs.get_job(connection, id_)
    if as_json:
        print_json(as_json_object(job))
        return
    print_fields(
        [
            ("job", str(job.id)),
            ("kind", job.kind),
            ("state", job.state),
            ("error", job.error or ""),
            ("filter", str(job.wanted)),
            ("options", ", ".join(f"{name} {value}" for name, value in job.options.items())),
            ("actor", signed(job.actor, job.account)),
            ("reason", job.reason),
            ("total", count(job.total)),
            ("done", count(job.done)),
            ("skipped", ", ".join(f"{number:,} {reason}" for reason, number in sorted(job.skipped.items()))),
            ("created", times.show(job.created_at)),
            ("started", times.show(job.started_at)),
            ("last step", times.show(job.heartbeat_at)),
            ("ended", times.show(job.finished_at)),
        ]
    )


@app.command()
def resume(
    id_: _Id,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="File of the export, as in `jobs show`."),
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Continue a job that waits, failed, or is orphaned.

    \b
    Examples:
      workorders jobs resume 7
      workorders jobs resume 8 --file /home/ada/failed.jsonl
    """  # noqa: D301 - as above
    with connect_to_write(database) as connection:
        job = jobs.get_job(connection, id_)
        connection.commit()
        run(connection, job, detach=False, as_json=as_json, file=file)


@app.command()
def cancel(id_: _Id, database: Database = None) -> None:
    """Cancel a job; its finished steps remain.

    \b
    Example:
      workorders jobs cancel 7
    """  # noqa: D301 - as above
    with connect_to_write(database) as connection:
        jobs.cancel_job(connection, id_)
        connection.commit()
        print(jobs.get_job(connection, id_))


def run(connection: Connection, job: Job, *, detach: bool, as_json: bool, file: Path | None = None) -> None:
    """Run a job and print its progress, or only print how to run it later.

    Exits with 1 if the job waits for capacity, or if a single work order was requested and not changed.
    """
    if detach:
        note(_how_it_runs_later(job))
    else:
        note(f"Job {job.id} ({job.kind}) has {job.total:,} work orders; {_resume(job)} continues it if interrupted.")
        job = runner.run_job(connection, job.id, progress=_progress, file=file)
    if as_json:
        print_json(as_json_object(job))
    elif not detach:
        print(job)
    if not detach and job.state == "waiting":
        note(f"{job.error} {_resume(job)} tries again.")
        raise typer.Exit(1)
    if not detach and job.wanted.id is not None and not job.done:
        raise typer.Exit(1)


def _how_it_runs_later(job: Job) -> str:
    if job.kind == "export":
        return f"Job {job.id} is queued; only {_resume(job)} on this machine runs it, because it writes the file here."
    return f"Job {job.id} is queued; the Dag workorders_jobs runs it unless it is paused, or {_resume(job)}."


def _resume(job: Job) -> str:
    file = f" --file {shlex.quote(job.options['file'])}" if job.kind == "export" else ""
    return f"`workorders jobs resume {job.id}{file}`"


def as_json_object(job: Job) -> dict[str, Any]:
    """Return a job with the keys that JSON has."""
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state,
        "error": job.error,
        "filter": job.wanted.to_json(),
        "options": job.options,
        "actor": job.actor,
        "account": job.account,
        "reason": job.reason,
        "total": job.total,
        "done": job.done,
        "skipped": job.skipped,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "heartbeat_at": job.heartbeat_at,
        "finished_at": job.finished_at,
    }


def _progress(job: Job) -> None:
    if sys.stderr.isatty():
        print(f"\r{job.looked_at:,} of {job.total:,}", end="\n" if job.looked_at >= job.total else "", file=sys.stderr)


def _cells(job: Job) -> tuple[str, ...]:
    return (
        str(job.id),
        times.show(job.created_at),
        job.kind,
        job.state,
        count(job.done),
        count(sum(job.skipped.values())),
        count(job.total),
        str(job.wanted),
        signed(job.actor, job.account),
        job.error or "",
    )
