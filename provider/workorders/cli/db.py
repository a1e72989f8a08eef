"""`workorders db`: the version of the tables."""

import typer

from workorders.cli.connections import database_url
from workorders.cli.options import Database
from workorders.core import schema

app = typer.Typer(no_args_is_help=True)


@app.command()
def upgrade(database: Database = None) -> None:
    """Upgrade the tables to this package's version.

    Run it after every upgrade of the package, before its Dags run. It is one transaction, and safe to repeat and to run
    concurrently. The first time creates the schema `workorders`; the user needs CREATE on the database.

    \b
    Example:
      workorders db upgrade
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    url = database_url(database)
    before, after = schema.current(url), schema.upgrade(url)
    print(
        f"The tables are at version {after} already." if before == after else f"The tables are at version {after} now."
    )


@app.command()
def version(database: Database = None) -> None:
    """Print the version of the tables.

    Exits with 1 if this package needs another version.

    \b
    Example:
      workorders db version
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    schema.require_newest(database_url(database))
    print(schema.newest())
