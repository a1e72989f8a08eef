"""`workorders search`: the upkeep of full text and of the counts."""

import typer

from workorders.cli.connections import connect_to_write
from workorders.cli.options import Database
from workorders.cli.output import count
from workorders.core.maintenance import refresh

app = typer.Typer(no_args_is_help=True)


@app.command()
def update(database: Database = None) -> None:
    """Add new work orders to the index and the counts.

    The Dag workorders_search_index does the same.

    \b
    Example:
      workorders search update
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect_to_write(database) as connection:
        done = refresh.refresh_history(connection)
    print(f"The words of {count(done.filled)} work orders were added, {count(done.looked_again)} were looked at again.")
