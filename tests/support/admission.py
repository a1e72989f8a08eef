"""Triggers with rules, events that the rules see, and what the database holds of their verdicts."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import psycopg

from support.eventually import eventually
from workorders.core import triggers, workflows
from workorders.core.definitions.trigger import Idempotency, Sequence
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger

BY_ID = {"key": "body:/id", "window": "1h"}
BY_NUMBER = {"key": "body:/key", "number": "body:/number", "start": 1}


def register(
    connection: Connection,
    name: str,
    *,
    idempotency: dict[str, Any] | None = None,
    sequence: dict[str, Any] | None = None,
    workflow: str | None = None,
    notify: Iterable[str] = (),
) -> Trigger:
    """Return a trigger with rules, of its own workflow, and commit."""
    definition = {
        "idempotency": idempotency and Idempotency.model_validate(idempotency).model_dump(mode="json"),
        "sequence": sequence and Sequence.model_validate(sequence).model_dump(mode="json"),
        "notify": list(notify),
    }
    trigger = triggers.register(connection, name=name, type_="manual", workflow=workflow or name, definition=definition)
    connection.commit()
    return trigger


def limit(connection: Connection, workflow: str, **limits: Any) -> None:
    """Give a workflow limits, as its file would."""
    fields = {"name": workflow, "callable": "json:dumps", "limits": limits}
    workflows.register(connection, WorkflowDefinition.model_validate(fields))


def event(position: int | None, stream: str = "s", **body: Any) -> Item:
    """Return an input with these fields."""
    return Item(None if position is None else stream, position, b'{"from":"a test"}', json.dumps(body).encode())


def events(ids: Iterable[str], start: int = 0, stream: str = "s") -> list[Item]:
    """Return an input for each id, at places that follow one another."""
    return [event(place, stream, id=id_) for place, id_ in enumerate(ids, start)]


def outcome(connection: psycopg.Connection[Any], trigger: Trigger, field: str) -> list[tuple[Any, str, str | None]]:
    """Return a field of each input, its state and the reason, in the order of creation."""
    return connection.execute(
        """
        SELECT coalesce(dataclips.body, convert_from(raw, 'UTF8')::jsonb) -> %s, state::text, code
        FROM workorders.work_orders
        LEFT JOIN workorders.dataclips USING (id)
        LEFT JOIN workorders.rejections ON work_order_id = work_orders.id
        WHERE trigger_id = %s
        ORDER BY work_orders.id
        """,
        (field, trigger.id),
    ).fetchall()


def ids(connection: psycopg.Connection[Any], trigger: Trigger) -> list[UUID]:
    """Return the work orders of a trigger, in the order of creation."""
    rows = connection.execute("SELECT id FROM workorders.work_orders WHERE trigger_id = %s ORDER BY id", (trigger.id,))
    return [row[0] for row in rows]


def wait_for_lock(database_url: str, waiter: Connection) -> None:
    """Return when the other connection waits for a lock."""
    pid = waiter.info.backend_pid
    with connect(database_url, application_name="test watch", autocommit=True) as watch:
        eventually(
            lambda: watch.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", (pid,)).fetchone() == (True,),
            seconds=30,
            what="waiting for a lock",
            every=0.02,
        )
