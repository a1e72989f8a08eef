"""`workorders retention`: erase and delete what each workflow's definition no longer keeps."""

from collections.abc import Sequence

import typer

from workorders.cli.connections import connect_to_write
from workorders.cli.options import AsJson, Database, DryRun
from workorders.cli.output import Column, count, note, print_json, print_table
from workorders.core.maintenance import retention
from workorders.core.maintenance.retention import RetentionPreview

app = typer.Typer(no_args_is_help=True)

_COLUMNS: Sequence[Column[RetentionPreview]] = (
    Column("workflow", lambda due: due.workflow),
    Column("to delete", lambda due: count(due.deleted), number=True),
    Column("to erase", lambda due: count(due.wiped), number=True),
)


@app.command()
def run(dry_run: DryRun = False, as_json: AsJson = False, database: Database = None) -> None:
    """Erase and delete what is due, in small steps.

    \b
    Examples:
      workorders retention run --dry-run
      workorders retention run
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect_to_write(database) as connection:
        if not dry_run:
            swept = retention.delete_expired(connection)
            if as_json:
                print_json(swept)
            else:
                print(f"{count(swept.deleted)} work orders were deleted, and {count(swept.wiped)} inputs were erased.")
            if swept.remainder:
                note(swept.remainder)
            return
        due = retention.preview(connection)
    if as_json:
        print_json(due)
        return
    print_table(_COLUMNS, due)
    note("This was a dry run; nothing was changed. An input to erase may belong to a work order to delete.")
