"""`workorders steps`: the table of `context.transaction` in the database of a workflow."""

from typing import Annotated

import typer

from workorders.cli.connections import airflow_database_url, connect_to_write
from workorders.cli.options import option
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
