"""`workorders steps`: the table of `context.transaction` in the database of a workflow."""

import typer

from workorders.cli.steps_purge import purge

app = typer.Typer(no_args_is_help=True)

app.command()(purge)
