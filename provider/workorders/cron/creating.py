"""One work order an interval of the schedule."""

from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from workorders.core import triggers
from workorders.core.body import is_odd, judge
from workorders.core.database import Connection
from workorders.core.fields import MIB
from workorders.core.items import Item
from workorders.core.queries import load_queries
from workorders.core.single import Single, create_one
from workorders.core.triggers import Trigger, stream_id
from workorders.cron.definition import CronTriggerDefinition

STREAM = "schedule"
"""Stream of the intervals; the position is the end of the interval, which the schedule names, in Unix seconds."""
BY_HAND = "by-hand"
"""Stream of the runs that belong to no interval."""

_QUERIES = load_queries("workorders.cron", "sql/cron.sql")
_LARGEST_INPUT = 32 * MIB


@dataclass(frozen=True, slots=True)
class Due:
    """What a work order is due for: an interval of the schedule, or somebody's click."""

    start: datetime | None
    """None without an interval."""
    end: datetime
    """The time that the schedule names; of a click, its own time."""

    @property
    def stream(self) -> str:
        """Where the event has its place."""
        return BY_HAND if self.start is None else STREAM


def create(connection: Connection, definition: CronTriggerDefinition, due: Due) -> Single:
    """Create the work order of an interval, in a transaction of its own, or find the one that is there.

    An output that cannot be an input becomes a rejected work order, which says why.

    Raises:
        psycopg.Error: the database failed; nothing was created.
    """
    with connection.transaction():
        trigger = triggers.register(
            connection,
            name=definition.name,
            type_=definition.type,
            workflow=definition.workflow,
            definition=definition.model_dump(mode="json"),
        )
        return create_one(connection, trigger, _item(connection, definition, trigger, due))


def _item(connection: Connection, definition: CronTriggerDefinition, trigger: Trigger, due: Due) -> Item:
    output = _last_output(connection, trigger, due) if definition.last_output else None
    body = orjson.dumps(definition.input) if output is None else output
    rejection = judge(body, _LARGEST_INPUT, odd=is_odd(body))
    request = orjson.dumps(
        {
            "scheduled_for": _text(due.end),
            "interval_start": None if due.start is None else _text(due.start),
            "schedule": definition.schedule,
            "timezone": definition.timezone,
            "input": "last_output" if output is not None else "definition",
        }
    )
    position = int(due.end.timestamp())
    if rejection is None:
        return Item(due.stream, position, request, body)
    return Item(due.stream, position, request, None, rejection, body)


def _text(time: datetime) -> str:
    # Airflow gives times of a class of its own, which orjson does not take for times.
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _last_output(connection: Connection, trigger: Trigger, due: Due) -> bytes | None:
    arguments = {"stream_id": stream_id(connection, trigger, due.stream), "before": int(due.end.timestamp())}
    row = connection.execute(_QUERIES["last_output"], arguments).fetchone()
    return None if row is None else row[0].encode()
