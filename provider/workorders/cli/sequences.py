"""`workorders sequences`: gaps in sequences, and what an operator decides of one."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

import typer

from workorders.cli.connections import connect, connect_to_write
from workorders.cli.options import AsJson, Change, Database, Limit, OfTrigger, TriggerName, argument, takes
from workorders.cli.output import count, show_rows
from workorders.core import triggers
from workorders.core.admission import gaps
from workorders.core.admission.gaps import Gap
from workorders.core.attribution import Attribution
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

app = typer.Typer(no_args_is_help=True)

_Key = Annotated[str, argument("KEY", "Id of the sequence, or the value of its key.")]


@app.command("list")
def list_(trigger: OfTrigger = None, limit: Limit = 50, as_json: AsJson = False, database: Database = None) -> None:
    """List sequences with a gap, the oldest gap first.

    Example:
      workorders sequences list --trigger orders
    """
    with connect(database) as connection:
        if trigger is not None:
            triggers.find(connection, trigger)
        found = gaps.list_gaps(connection, trigger=trigger, limit=limit, max_read=None)
        show_rows(Gap, found, as_json=as_json)


@app.command()
@takes(change=Change)
def skip(trigger: TriggerName, key: _Key, *, change: Change) -> None:
    """Skip the missing numbers of the first gap.

    Admits the parked work orders up to the next gap.

    Example:
      workorders sequences skip orders order-7 --reason "number 4 was never sent"
    """
    consequence = "Numbers in the first gap of sequence {} will be rejected if they still come."
    _decide(change, trigger, key, consequence, gaps.skip)


@app.command()
@takes(change=Change)
def release(trigger: TriggerName, key: _Key, *, change: Change) -> None:
    """Skip the missing numbers of all gaps.

    Admits all parked work orders, in the order of their numbers.

    Example:
      workorders sequences release orders order-7 --reason "the order was closed"
    """
    consequence = "Numbers in any gap of sequence {} will be rejected if they still come."
    _decide(change, trigger, key, consequence, gaps.release)


@app.command()
@takes(change=Change)
def drop(trigger: TriggerName, key: _Key, *, change: Change) -> None:
    """Delete a finished sequence without parked events.

    The next event of its key starts a new sequence.

    Example:
      workorders sequences drop orders order-7 --reason "the order was delivered"
    """
    _decide(change, trigger, key, "A number of sequence {} that comes again will be new.", gaps.drop)


def _decide(
    change: Change,
    trigger: str,
    key: str,
    consequence: str,
    decide: Callable[[Connection, Trigger, UUID, Attribution], list[int] | None],
) -> None:
    """Apply a decision about a sequence once its consequence is confirmed; it returns the numbers that it admits."""
    with connect_to_write(change.database) as connection:
        found = triggers.find(connection, trigger)
        sequence = gaps.find(connection, found, key)
        connection.rollback()  # no transaction stays open while a person decides
        change.confirm(consequence.format(sequence))
        numbers = decide(connection, found, sequence, change.by)
    if numbers is None:
        print(f"Done: sequence {sequence} is forgotten.")
    else:
        admitted = f"{count(len(numbers))} work orders of sequence {sequence} were admitted"
        print(f"Done: {admitted} ({numbers[0]} to {numbers[-1]}).")
