"""`workorders steps`: the table of `context.transaction` in the database of a workflow."""

from datetime import timedelta
from typing import Annotated

import typer

from workorders.cli.connections import airflow_database_url, connect, connect_to_write
from workorders.cli.options import Database, option, parse_seconds
from workorders.cli.output import count
from workorders.core.maintenance.steps import purge_steps
from workorders.core.worker.user_database import CREATE_TABLE

app = typer.Typer(no_args_is_help=True)


@app.command("create-table")
def create_table(
    connection: Annotated[
        str, option("CONNECTION", "Airflow connection that the workflow names as its `database`.", "--connection")
    ] = "",
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, and change nothing.")] = False,
) -> None:
    """Create the table `workorders_steps` unless it exists.

    context.transaction records there what it has committed. The user of the connection owns the table; another user
    needs SELECT, INSERT, and UPDATE.

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


@app.command()
def purge(
    connection_id: Annotated[str, option("CONNECTION", "Airflow connection of your database.", "--connection")],
    older_than: Annotated[
        float, option("DURATION", "Minimum age of a deleted row, such as 400d.", "--older-than", parser=parse_seconds)
    ],
    database: Database = None,
) -> None:
    """Delete old results of transactions from your database.

    Deletes the rows of workorders_steps whose work orders were deleted or erased by retention. Any other row is kept,
    because the next run of its work order may ask for it.

    Example:
      workorders steps purge --connection shop_db --older-than 400d
    """
    with connect(database) as work_orders, connect_to_write(airflow_database_url(connection_id)) as connection:
        deleted = purge_steps(connection, work_orders, older_than=timedelta(seconds=older_than))
    print(f"{count(deleted)} results of transactions were deleted.")
