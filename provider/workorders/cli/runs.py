"""`workorders runs`: list the attempts at work orders, and look at one."""

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

import typer

from workorders.cli.connections import connect
from workorders.cli.options import AsJson, BeforeId, Database, Limit, argument, option, state_option
from workorders.cli.output import Column, json_object, print_fields, print_json, print_page
from workorders.cli.steps_table import print_steps, steps_json
from workorders.core.history import runs
from workorders.core.history.runs import RunDetails
from workorders.core.history.work_orders import RunRow
from workorders.core.states import RunState
from workorders.core.steps import history as steps
from workorders.visible_text import safe

app = typer.Typer(no_args_is_help=True)

_ERROR_CHARACTERS: Final = 80


@app.command("list")
def list_(
    *,
    workflow: Annotated[str | None, option("NAME", "Only runs of this workflow.", "--workflow")] = None,
    state: Annotated[RunState | None, state_option(RunState)] = None,
    work_order: Annotated[UUID | None, option("ID", "Only runs of this work order.", "--work-order")] = None,
    limit: Limit = 20,
    before: BeforeId = None,
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
    with connect(database) as connection:
        found = runs.list_runs(
            connection, workflow=workflow, state=state, work_order=work_order, before=before, limit=limit
        )
    if as_json:
        print_json(found)
    else:
        print_page(_COLUMNS, found, "runs list", limit=limit, workflow=workflow, state=state, work_order=work_order)


@app.command()
def show(
    id_: Annotated[UUID, argument("ID", "Id of the run.")], as_json: AsJson = False, database: Database = None
) -> None:
    """Show one run with its output, its error, its log, and the steps that were finished when it ended.

    \b
    Example:
      workorders runs show 019d0c5e-3f2a-7c1b-8a4e-1f6f0c9d2b3a
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        run = runs.get_run(connection, id_)
        finished = steps.list_steps_at_end(connection, run)
    if as_json:
        print_json(json_object(run) | {"steps": steps_json(finished)})
    else:
        _print(run)
        print_steps(finished, steps.describe_end(run.state, finished))


def _print(run: RunDetails) -> None:
    print_fields(
        [
            ("run", run.id),
            ("work order", run.work_order_id),
            ("workflow", run.workflow),
            ("attempt", f"{run.attempt}, automatic retry {run.retry}" if run.retry else run.attempt),
            ("state", run.shown_state),
            ("due", run.not_before if run.state == "available" else None),
            ("claimed", run.claimed_at),
            ("started", run.started_at),
            ("finished", run.finished_at),
            ("seconds", _seconds(run)),
            ("heartbeat due", None if run.finished_at else run.expires_at),
            ("actor", run.actor),
            ("reason", run.reason),
            ("generation", run.generation),
            ("error", _error(run)),
        ]
    )
    for title, text in (("output", run.output), ("log, shortened" if run.log_truncated else "log", run.log)):
        if text:
            print(f"\n{title}:\n{safe(text)}")


def _seconds(run: RunRow) -> str:
    return f"{(run.finished_at - run.started_at).total_seconds():.3f}" if run.started_at and run.finished_at else ""


def _error(run: RunRow) -> str:
    return f"{run.error_type or ''}: {run.error}" if run.error else run.error_type or ""


_COLUMNS: Sequence[Column[RunRow]] = (
    Column("id", lambda run: run.id),
    Column("work order", lambda run: run.work_order_id),
    Column("workflow", lambda run: run.workflow),
    Column("run", lambda run: run.attempt, number=True),
    Column("state", lambda run: run.shown_state),
    Column("actor", lambda run: run.actor),
    Column("reason", lambda run: run.reason),
    Column("started", lambda run: run.started_at),
    Column("seconds", _seconds, number=True),
    Column("error", lambda run: _error(run).partition("\n")[0][:_ERROR_CHARACTERS]),
)
