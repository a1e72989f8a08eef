"""Looks at the tables from outside, by plain SQL of the tests' own."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from workorders.core.ids import first_id
from workorders.core.items import Item, Rejection
from workorders.core.triggers import Trigger

REQUEST = b'{"from":"a test"}'


def accepted(stream: str | None, position: int | None, body: bytes = b'{"a":1}') -> Item:
    """Return an item that is an input."""
    return Item(stream, position, REQUEST, body)


def rejected(stream: str | None, position: int | None, raw: bytes | None = b"rubbish") -> Item:
    """Return an item that is no input."""
    return Item(stream, position, REQUEST, None, Rejection("not-json", "rubbish at character 1"), raw)


def accepted_range(stream: str, start: int, end: int) -> list[Item]:
    """Return an input for every position of `[start, end)`."""
    return [accepted(stream, position) for position in range(start, end)]


def keys(connection: psycopg.Connection[Any], trigger: Trigger) -> list[tuple[str | None, int | None]]:
    """Return the source keys of a trigger's work orders, in the order of their ids."""
    return connection.execute(
        """
        SELECT source_streams.name, work_orders.position
        FROM workorders.work_orders LEFT JOIN workorders.source_streams ON source_streams.id = work_orders.stream_id
        WHERE work_orders.trigger_id = %s
        ORDER BY work_orders.id
        """,
        (trigger.id,),
    ).fetchall()


def positions(connection: psycopg.Connection[Any], trigger: Trigger, stream: str) -> list[int | None]:
    """Return the positions of one stream that have a work order, in the order of the ids."""
    return [position for name, position in keys(connection, trigger) if name == stream]


def remove(connection: psycopg.Connection[Any], trigger: Trigger, at: Iterable[int]) -> None:
    """Delete work orders with all that belongs to them, as nothing in the package does."""
    removed = connection.execute(
        "DELETE FROM workorders.work_orders WHERE trigger_id = %s AND position = ANY (%s) RETURNING id",
        (trigger.id, list(at)),
    ).fetchall()
    ids = [id_ for (id_,) in removed]
    connection.execute("DELETE FROM workorders.dataclips WHERE id = ANY (%s)", (ids,))
    connection.execute("DELETE FROM workorders.rejections WHERE work_order_id = ANY (%s)", (ids,))


def age(connection: psycopg.Connection[Any], trigger: Trigger, days: float) -> list[UUID]:
    """Let all work orders of a trigger have been created some days ago, and return their new ids."""
    then = datetime.now(UTC) - timedelta(days=days)
    found = connection.execute("SELECT id FROM workorders.work_orders WHERE trigger_id = %s ORDER BY id", (trigger.id,))
    old = [id_ for (id_,) in found]
    new = [UUID(int=first_id(then).int + number) for number in range(len(old))]
    for table, column in {"work_orders": "id", "dataclips": "id", "runs": "work_order_id"}.items():
        connection.execute(
            f"UPDATE workorders.{table} SET {column} = new FROM unnest(%s::uuid[], %s::uuid[]) AS ids (old, new) "
            f"WHERE {column} = old".encode(),
            (old, new),
        )
    connection.execute("UPDATE workorders.work_orders SET created_at = %s WHERE trigger_id = %s", (then, trigger.id))
    return new


ORPHANS = """
    SELECT 'work order without its part', work_orders.id
    FROM workorders.work_orders
    LEFT JOIN workorders.dataclips ON dataclips.id = work_orders.id
    LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
    WHERE (work_orders.state = 'rejected') IS DISTINCT FROM (rejections.work_order_id IS NOT NULL)
        OR (work_orders.state = 'rejected') IS DISTINCT FROM (dataclips.id IS NULL)
    UNION ALL
    SELECT 'dataclip without work order', dataclips.id
    FROM workorders.dataclips LEFT JOIN workorders.work_orders USING (id) WHERE work_orders.id IS NULL
    UNION ALL
    SELECT 'rejection without work order', rejections.work_order_id
    FROM workorders.rejections LEFT JOIN workorders.work_orders ON work_orders.id = rejections.work_order_id
    WHERE work_orders.id IS NULL
"""
