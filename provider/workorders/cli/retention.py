"""`workorders retention`: erase and delete what each workflow's definition no longer keeps."""

from typing import Annotated

import typer

from workorders.cli.connections import Database, connect_to_write
from workorders.cli.output import AsJson, Column, count, note, print_json, print_table
from workorders.core.maintenance import retention

app = typer.Typer(no_args_is_help=True)


@app.command()
def run(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what is due and change nothing.")] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
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
    print_table(
        (Column("workflow"), Column("to delete", number=True), Column("to erase", number=True)),
        [(kept.workflow, count(kept.deleted), count(kept.wiped)) for kept in due],
    )
    note("This was a dry run; nothing was changed. An input to erase may belong to a work order to delete.")
