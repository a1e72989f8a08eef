"""Creates one work order per interval of the schedule, and one per Dag run that a person starts."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from workorders.core import triggers
from workorders.core.creation.create_one import CreateResult, create_one
from workorders.core.creation.json_validation import validate_body
from workorders.core.exceptions import WorkOrdersError
from workorders.core.items import MAX_BODY_BYTES, Item
from workorders.core.json_text import dumps
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger, stream_id
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.json_values import loads
from workorders.cron.definition import CronTriggerDefinition

STREAM = "schedule"
"""Stream of the intervals; the position is the end of the interval in Unix seconds."""
MANUAL_RUN = "dag-run"
"""Scope of the keys of Dag runs that were started by hand."""

_QUERIES = load_queries("workorders.cron", "sql/schedule.sql")


class ExpiredTimeError(WorkOrdersError):
    """Retention may have deleted the work order of a cleared Dag run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """An interval of the schedule; or a Dag run that a person or another Dag started, which is a separate event."""

    time: datetime
    """The scheduled time, which is the end of the interval; or when that Dag run was started."""
    start: datetime | None = None
    """Beginning of the interval; None for a Dag run that was started."""
    key: str | None = None
    """Identifies a Dag run that was started; its time does not, because two may start within a second."""
    is_cleared: bool = False
    """Whether the Dag run of the interval was cleared, so that the interval may have had a work order."""
    conf: Mapping[str, Any] = field(default_factory=dict)
    """The conf of the Dag run, whose fields replace those of the input."""


def create(connection: Connection, definition: CronTriggerDefinition, due: Due) -> CreateResult:
    """Create the work order that is due, in its own transaction, or find the existing one.

    An output that cannot be an input becomes a rejected work order with the reason.

    Raises:
        ExpiredTimeError: the Dag run was cleared, and retention may have deleted its work order; nothing was created.
        psycopg.Error: the database failed; nothing was created.
    """
    with connection.transaction():
        trigger = triggers.register_definition(connection, definition)
        stream, position = (None, None) if due.start is None else (STREAM, int(due.time.timestamp()))
        body, request = _input(connection, definition, trigger, due)
        rejection = validate_body(body, MAX_BODY_BYTES)
        if rejection is None:
            item = Item(stream, position, request, body)
        else:
            item = Item(stream, position, request, None, rejection, body)
        made = create_one(connection, trigger, item, key=due.key, key_scope=MANUAL_RUN)
        if made.created and due.is_cleared:
            _require_kept(connection, trigger, due.time)
        return made


def _require_kept(connection: Connection, trigger: Trigger, end: datetime) -> None:
    """Refuse a work order of a time that retention may have deleted, at the end of the transaction that created it.

    A work order is created after its time. If the time is young at the end, retention has deleted none before.
    """
    row = connection.execute(_QUERIES["expired"], {"workflow_id": trigger.workflow_id, "time": end}).fetchone()
    if row is not None:
        raise ExpiredTimeError(
            f"Trigger {trigger.name}: the cleared Dag run of {_text(end)} has no work order and is older than the "
            f"{row[0]:g} days for which workflow {trigger.workflow} keeps work orders, so retention may have deleted "
            f"it. Nothing was created. To repeat the work, trigger the Dag by hand."
        )


def _input(
    connection: Connection, definition: CronTriggerDefinition, trigger: Trigger, due: Due
) -> tuple[bytes, bytes]:
    """Return the body and the request."""
    body, source = dumps(definition.input), "definition"
    if definition.use_last_output:
        # Also for a Dag run that a person starts: the chain of outputs follows the schedule only.
        arguments = {"stream_id": stream_id(connection, trigger, STREAM), "before": int(due.time.timestamp())}
        row = connection.execute(_QUERIES["last_output"], arguments).fetchone()
        if row is not None:
            body, source = row[0].encode(), "last_output"
    request: dict[str, Any] = {
        "scheduled_for": _text(due.time),
        "interval_start": None if due.start is None else _text(due.start),
        "schedule": definition.schedule,
        "timezone": definition.timezone,
        "input": source,
    }
    if due.conf:
        request["conf"] = dict(due.conf)
        body = _with_fields(body, due.conf)
    return body, dumps(request)


def _with_fields(body: bytes, conf: Mapping[str, Any]) -> bytes:
    """Return an input with the fields of a conf over its own; an output that is no input stays as it is."""
    with suppress(InputUnreadableError):
        found = loads(body)
        if isinstance(found, dict):
            return dumps({**found, **conf})
    return body


def _text(time: datetime) -> str:
    # Airflow passes times as its own class, which orjson does not encode.
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
