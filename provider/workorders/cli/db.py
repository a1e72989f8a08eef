"""`workorders db`: the version of the tables."""

import typer

from workorders.cli.connections import Database, database_url
from workorders.core import schema

app = typer.Typer(no_args_is_help=True)


@app.command()
def upgrade(database: Database = None) -> None:
    """Bring the tables to the version that this package needs.

    Run it after every upgrade of the package, before its DAGs run. It is one transaction, and may be run again at any
    time, by several at once. The first run makes the schema `workorders`; the user needs CREATE on the database.

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
    """Print the version of the tables; end with 1 when this package needs another one.

    \b
    Example:
      workorders db version
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    schema.require_newest(database_url(database))
    print(schema.newest())
