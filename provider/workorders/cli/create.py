"""`workorders create`: one work order by hand."""

from pathlib import Path
from typing import Annotated

import typer

from workorders.cli.connections import connect_to_write
from workorders.cli.definitions import read_workflows
from workorders.cli.options import Actor, AsJson, Database, Folder, Reason, TriggerName, account, option
from workorders.cli.output import print_json
from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.creation.create_one import create_by_hand
from workorders.core.definitions.loading import TRIGGERS, read
from workorders.core.environment import TRIGGERS_VARIABLE
from workorders.core.exceptions import UnknownNameError
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger


def create(
    trigger: TriggerName,
    *,
    reason: Reason,
    body: Annotated[str | None, option("JSON", "Input, a JSON object.", "--body")] = None,
    file: Annotated[
        typer.FileBinaryRead | None, option("FILE", "File with the input; - is standard input.", "--file")
    ] = None,
    key: Annotated[str | None, option("TEXT", "Idempotency key: one work order per key.", "--key")] = None,
    actor: Actor = None,
    folder: Folder = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Create one work order by hand, with the actor and the reason.

    The trigger may be of any type; one that is new to the database is read from the folder. With a key that was used
    before, nothing is created, and the work order of that key is named.

    Examples:
      workorders create refunds --body '{"order": 17}' --reason "requested by mail"
      workorders create refunds --file order.json --key order-17 --reason "lost in the shop"
    """
    if (body is None) == (file is None):
        raise typer.BadParameter("give the input by --body or by --file, and not by both")
    given = file.read() if file is not None else (body or "").encode("utf-8", "surrogateescape")
    with connect_to_write(database) as connection:
        found = _trigger(connection, trigger, folder)
        by = Attribution(actor or account(), reason, account())
        made = create_by_hand(connection, found, given, by, key=key)
    if as_json:
        print_json({"work_order": made.id, "state": made.state, "created": made.created})
    elif made.created:
        print(f"Work order {made.id} of trigger {trigger} was created.")
    elif made.id is not None:
        print(f"Work order {made.id} ({made.state}) has this key already; nothing was created.")
    else:
        print("The work order of this key has been deleted; nothing was created.")


def _trigger(connection: Connection, name: str, folder: Path | None) -> Trigger:
    try:
        return triggers.find(connection, name)
    except UnknownNameError:
        definition = read(TRIGGERS, TRIGGERS.files(folder)).definitions.get(name) if folder else None
    if definition is None or folder is None:
        where = f"set {TRIGGERS_VARIABLE}" if folder is None else f"no valid file in {folder} has that name"
        raise UnknownNameError(f"No trigger {name} is known here; nothing was created; {where}.")
    found = read_workflows(folder).find(definition.workflow)
    return triggers.register_definition(connection, definition.with_workflow(found))
