"""`workorders db`, `retention`, `search`: upkeep of the database."""

from collections.abc import Sequence
from typing import Annotated

import typer

from workorders.cli.connections import connect_to_write, database_url
from workorders.cli.options import AsJson, Database, DryRun
from workorders.cli.output import Column, count, note, print_json, print_table
from workorders.core import schema
from workorders.core.maintenance import refresh
from workorders.core.maintenance.retention import RetentionPreview, delete_expired, preview

db = typer.Typer(no_args_is_help=True)
retention = typer.Typer(no_args_is_help=True)
search = typer.Typer(no_args_is_help=True)

_COLUMNS: Sequence[Column[RetentionPreview]] = (
    Column("workflow", lambda due: due.workflow),
    Column("to delete", lambda due: count(due.deleted), number=True),
    Column("to erase", lambda due: count(due.wiped), number=True),
)


@db.command()
def upgrade(
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, and change nothing.")] = False,
    roles: Annotated[bool, typer.Option("--roles", help="Create the roles, and grant them their rights.")] = False,
    database: Database = None,
) -> None:
    """Upgrade the tables to this package's version.

    Run it after every upgrade of the package, before its Dags run. It is one transaction, and safe to repeat and to run
    concurrently. The first time creates the schema `workorders`; the user needs CREATE on the database. New indexes of
    large tables are built after the transaction, while others write.

    --roles creates workorders_owner, workorders_writer, and workorders_reader if they do not exist, lets the owner own
    the tables, and grants the others their rights, in the same transaction. The first time, the user needs CREATEROLE.
    New roles have no password. An upgrade may add tables, so give --roles each time if you use the roles.

    --sql reads the version of the tables, and prints the SQL from there: for people who let another role or another
    tool change tables. It prints nothing if there is nothing to do.

    \b
    Examples:
      workorders db upgrade
      workorders db upgrade --roles --database postgresql://postgres@db/workorders
      workorders db upgrade --roles --sql > upgrade.sql
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    url = database_url(database)
    if sql:
        print(schema.upgrade_sql(url, with_roles=roles), end="")
        return
    before, after = schema.current(url), schema.upgrade(url, with_roles=roles)
    print(
        f"The tables are at version {after} already." if before == after else f"The tables are at version {after} now."
    )


@db.command()
def version(database: Database = None) -> None:
    """Print the version of the tables.

    Exits with 1 if this package needs another version.

    \b
    Example:
      workorders db version
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    schema.require_newest(database_url(database))
    print(schema.newest())


@retention.command()
def run(dry_run: DryRun = False, as_json: AsJson = False, database: Database = None) -> None:
    """Erase and delete what is due, old batches included, in small steps.

    A dry run counts work orders and inputs, and no batches.

    \b
    Examples:
      workorders retention run --dry-run
      workorders retention run
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect_to_write(database) as connection:
        if not dry_run:
            swept = delete_expired(connection)
            if as_json:
                print_json(swept)
            else:
                print(f"{count(swept.deleted)} work orders were deleted, and {count(swept.wiped)} inputs were erased.")
            return
        due = preview(connection)
    if as_json:
        print_json(due)
        return
    print_table(_COLUMNS, due)
    note("This was a dry run; nothing was changed. An input to erase may belong to a work order to delete.")


@search.command()
def update(database: Database = None) -> None:
    """Add new work orders to the index and the counts.

    The Dag workorders_maintenance does the same.

    \b
    Example:
      workorders search update
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect_to_write(database) as connection:
        done = refresh.refresh_history(connection)
    print(f"The words of {count(done.filled)} work orders were added, {count(done.looked_again)} were looked at again.")
