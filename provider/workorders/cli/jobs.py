"""`workorders jobs`: reruns, cancels and exports under way, and how they ended."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from workorders import dag_ids
from workorders.cli.account import signed
from workorders.cli.connections import connect, connect_to_write
from workorders.cli.options import AsJson, BeforeNumber, Database, Limit, argument, option
from workorders.cli.output import Column, count, json_object, note, print_fields, print_json, print_page
from workorders.core.bulk import jobs, runner
from workorders.core.bulk.jobs import Job
from workorders.core.postgres.connection import Connection

app = typer.Typer(no_args_is_help=True)

_Id = Annotated[int, argument("ID", "Number of the job.")]

_COLUMNS: Sequence[Column[Job]] = (
    Column("id", lambda job: job.id, number=True),
    Column("created", lambda job: job.created_at),
    Column("kind", lambda job: job.kind),
    Column("state", lambda job: job.state),
    Column("done", lambda job: count(job.done), number=True),
    Column("skipped", lambda job: count(sum(job.skipped.values())), number=True),
    Column("total", lambda job: count(job.total), number=True),
    Column("filter", lambda job: job.wanted),
    Column("actor", lambda job: signed(job.actor, job.account)),
    Column("error", lambda job: job.error),
)


@app.command("list")
def list_(limit: Limit = 20, before: BeforeNumber = None, as_json: AsJson = False, database: Database = None) -> None:
    """List bulk jobs, newest first, with their progress.

    \b
    Example:
      workorders jobs list
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        found = jobs.list_jobs(connection, before=before, limit=limit)
    if as_json:
        print_json([_json(job) for job in found])
    else:
        print_page(_COLUMNS, found, "jobs list", limit=limit)


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
        print_json(_json(job))
        return
    print_fields(
        [
            ("job", job.id),
            ("kind", job.kind),
            ("state", job.state),
            ("error", job.error),
            ("filter", job.wanted),
            ("options", ", ".join(f"{name} {value}" for name, value in job.options.items())),
            ("actor", signed(job.actor, job.account)),
            ("reason", job.reason),
            ("total", count(job.total)),
            ("done", count(job.done)),
            ("skipped", ", ".join(f"{number:,} {reason}" for reason, number in sorted(job.skipped.items()))),
            ("created", job.created_at),
            ("started", job.started_at),
            ("last step", job.heartbeat_at),
            ("ended", job.finished_at),
        ]
    )


@app.command()
def resume(
    id_: _Id,
    file: Annotated[Path | None, option("FILE", "File of the export, as in `jobs show`.", "--file")] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Continue a job that waits, failed, or is orphaned.

    \b
    Examples:
      workorders jobs resume 7
      workorders jobs resume 8 --file failed.jsonl
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
        if as_json:
            print_json(_json(job))
        return
    note(f"Job {job.id} ({job.kind}) has {job.total:,} work orders; {_resume(job)} continues it if interrupted.")
    job = runner.run_job(connection, job.id, progress=_progress, file=file)
    if as_json:
        print_json(_json(job))
    else:
        print(job)
    if job.state == "waiting":
        note(f"{job.error} {_resume(job)} tries again.")
        raise typer.Exit(1)
    if job.wanted.id is not None and not job.done:
        raise typer.Exit(1)


def _how_it_runs_later(job: Job) -> str:
    if job.kind == "export":
        return f"Job {job.id} is queued; only {_resume(job)} on this machine runs it, because it writes the file here."
    return f"Job {job.id} is queued; the Dag {dag_ids.MAINTENANCE} runs it unless it is paused, or {_resume(job)}."


def _resume(job: Job) -> str:
    file = f" --file {shlex.quote(job.options['file'])}" if "file" in job.options else ""
    return f"`workorders jobs resume {job.id}{file}`"


def _json(job: Job) -> dict[str, Any]:
    shown = json_object(job, wanted="filter") | {"filter": job.wanted.to_json()}
    del shown["last_id"]
    return shown


def _progress(job: Job) -> None:
    if sys.stderr.isatty():
        print(f"\r{job.looked_at:,} of {job.total:,}", end="\n" if job.looked_at >= job.total else "", file=sys.stderr)
