"""The `workorders` command: its groups, and how it ends when something is wrong."""

import sys
from typing import Annotated

import typer

import workorders
from workorders.cli.commands import CommandGroup
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.visible_text import safe

# Plain help, without boxes: it can be searched, and keeps the examples' lines.
app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"workorders {workorders.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Inspect and manage work orders, triggers, workflows, and the outbox.

    \b
    Examples:
      workorders status
      workorders work-orders list --state failed --since 24h
      workorders work-orders rerun --state failed --reason "the registry was down"
      workorders triggers check include/triggers

    The database is that of --database, of WORKORDERS_DATABASE_URL, or of Airflow's connection workorders_db. Kafka is
    that of WORKORDERS_KAFKA (a JSON object of librdkafka settings), or of the trigger's Airflow connection. Prefer the
    variables for passwords: a command line is visible to every user of the machine.

    Exit status: 0 success, 1 error, 2 usage error.
    """  # noqa: D301 - \b is the character itself: it keeps the lines


def main() -> None:
    """Run the command line; what people can expect to go wrong becomes one sentence on standard error."""
    try:
        app(prog_name="workorders")
    except Exception as error:
        sentence = str(error) if isinstance(error, WorkOrdersError) else _sentence(error)
        if sentence is None:
            raise
        print(safe(sentence), file=sys.stderr)
        sys.exit(1)


def _sentence(error: Exception) -> str | None:
    """Return the message for a database error; None for one that only a mistake in this package can cause."""
    # Not above: commands that need no database do not wait for its driver.
    import psycopg  # noqa: PLC0415

    from workorders.core.postgres.connection import MISSING_TABLES, error_code  # noqa: PLC0415

    if isinstance(error, MISSING_TABLES):
        sentence = "The database lacks tables of this version ({}); nothing was changed; run `workorders db migrate`."
    elif isinstance(error, psycopg.errors.InsufficientPrivilege):
        sentence = "The database user lacks a permission ({}); nothing was changed; grant it, or give another user."
    elif isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        sentence = (
            "The database takes no writes ({}); nothing was changed; if it fails over, try again in a while; if this "
            "address is a standby's, give the primary's."
        )
    elif isinstance(error, psycopg.OperationalError):
        sentence = (
            "The database failed ({}); this step was not done; look into the log of Postgres."
            if error_code(error) == "WO-POSTGRES-FAILED"
            else "The database did not answer ({}); nothing was changed; check that it runs, and its address, user and "
            "password."
        )
    else:
        return None
    return f"{sentence.format(one_line(error))} [{error_code(error)}]"


if __name__ == "__main__":
    main()
