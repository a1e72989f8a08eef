"""Inputs that Postgres holds and cannot write out, as an older version let them in."""

from uuid import UUID

from support.work_orders import REQUEST
from workorders.core.creation.work_orders import create_for
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger


def growing(numbers: int) -> bytes:
    """Return a body that is 10 KB longer as text for each of its numbers."""
    return b'{"id":"x","note":"hidden","a":[' + b",".join([b"1e-9999"] * numbers) + b"]}"


#: Over the 1 GiB that a text of Postgres can have: to write it out is an error.
BEYOND_POSTGRES = growing(108_000)
#: Postgres writes it out, and no worker shall hold it.
BEYOND_WORKERS = growing(14_000)


def create_unreadable(connection: Connection, trigger: Trigger, position: int, body: bytes = BEYOND_POSTGRES) -> UUID:
    """Create a work order whose body was not validated, and return its id."""
    create_for(connection, trigger, [Item("s", position, REQUEST, body)])
    connection.commit()
    row = connection.execute(
        "SELECT id FROM workorders.work_orders WHERE trigger_id = %s AND position = %s", (trigger.id, position)
    ).fetchone()
    assert row is not None
    return UUID(str(row[0]))
