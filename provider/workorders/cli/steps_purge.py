"""`workorders steps purge`: retention of the results of transactions in a database of the user."""

from datetime import timedelta
from typing import Annotated

from workorders.cli import times
from workorders.cli.connections import airflow_database_url, connect, connect_to_write
from workorders.cli.options import Database, option
from workorders.cli.output import count
from workorders.core.steps.retention import purge_steps


def purge(
    connection_id: Annotated[str, option("ID", "Airflow connection of your database.", "--connection")],
    older_than: Annotated[
        float, option("AGE", "Minimum age of a deleted row, such as 400d.", "--older-than", parser=times.seconds)
    ],
    database: Database = None,
) -> None:
    """Delete old results of transactions from your database.

    Deletes the rows of workorders_steps whose work orders were deleted or erased by retention. Any other row is kept,
    because the next run of its work order may ask for it.

    \b
    Example:
      workorders steps purge --connection shop_db --older-than 400d
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as work_orders, connect_to_write(airflow_database_url(connection_id)) as connection:
        deleted = purge_steps(connection, work_orders, older_than=timedelta(seconds=older_than))
    print(f"{count(deleted)} results of transactions were deleted.")
