"""`workorders db`, `steps`, `retention`, `actions`: upkeep of the databases, and what operators did to them."""

from typing import Annotated

import typer

from workorders.cli.connections import airflow_database_url, connect, connect_to_write, database_url
from workorders.cli.options import Change, Database, Listing, option, takes
from workorders.cli.output import count, show_page
from workorders.core import operator_actions, schema
from workorders.core.maintenance.retention import delete_expired
from workorders.core.operator_actions import OperatorAction
from workorders.core.worker.user_database import CREATE_TABLE

db = typer.Typer(no_args_is_help=True)
steps = typer.Typer(no_args_is_help=True)
retention = typer.Typer(no_args_is_help=True)
actions = typer.Typer(no_args_is_help=True)


@db.command()
def migrate(
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, and change nothing.")] = False,
    roles: Annotated[bool, typer.Option("--roles", help="Create the roles, and grant them their rights.")] = False,
    database: Database = None,
) -> None:
    """Migrate the tables to this package's version.

    Run it after every upgrade of the package, before its Dags run. It is one transaction, and safe to repeat and to run
    concurrently. The first time creates the schema `workorders`; the user needs CREATE on the database.

    --roles creates workorders_owner, workorders_writer, and workorders_reader if they do not exist, lets the owner own
    the tables, and grants the others their rights, in the same transaction. The first time, the user needs CREATEROLE.
    New roles have no password. An upgrade may add tables, so give --roles each time if you use the roles.

    --sql prints the SQL from the version of the tables on, for another role or tool to run.

    Examples:
      workorders db migrate
      workorders db migrate --roles --database postgresql://postgres@db/workorders
      workorders db migrate --roles --sql > upgrade.sql
    """
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

    Example:
      workorders db version
    """
    schema.require_newest(database_url(database))
    print(schema.newest())


@steps.command("create-table")
def create_table(
    connection: Annotated[
        str, option("CONNECTION", "Airflow connection that the workflow names as its `database`.", "--connection")
    ] = "",
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, and change nothing.")] = False,
) -> None:
    """Create the table `workorders_steps` unless it exists.

    context.transaction records there what it has committed. The user of the connection owns the table; another user
    needs SELECT, INSERT, UPDATE, and DELETE.

    Examples:
      workorders steps create-table --connection shop_db
      workorders steps create-table --sql | psql "$SHOP_DB"
    """
    if sql:
        print(CREATE_TABLE)
        return
    if not connection:
        raise typer.BadParameter("give --connection or --sql.")
    with connect_to_write(airflow_database_url(connection)) as database:
        database.execute(CREATE_TABLE)
    print(f"The database of the Airflow connection {connection} has the table workorders_steps.")


@retention.command()
@takes(change=Change)
def run(*, change: Change) -> None:
    """Erase and delete what is due, old batches included, in small steps.

    Example:
      workorders retention run --reason "before the audit" --yes
    """
    with connect_to_write(change.database) as connection:
        change.confirm("What is due will be erased and deleted permanently.")
        change.record(connection, "retention run")
        swept = delete_expired(connection)
    print(f"{count(swept.deleted)} work orders were deleted, and {count(swept.wiped)} inputs were erased.")


@actions.command("list")
@takes(listing=Listing)
def list_(*, listing: Listing) -> None:
    """List what operators did to the outbox, to bulk operations, and by retention, newest first.

    Decisions about Kafka are in `workorders decisions list`.

    Example:
      workorders actions list
    """
    with connect(listing.database) as connection:
        found = operator_actions.list_actions(connection, before=listing.before, limit=listing.limit)
    show_page(OperatorAction, found, "actions list", listing)
