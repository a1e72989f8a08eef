"""Alerts about gaps: one when a gap lasts too long or has too many parked work orders, and one when it is closed.

As with stalls, the statement that finds a due gap also records its alert, which is sent after the commit. A crash
between the two loses the alert, and none is sent twice.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from workorders import times
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/gaps.sql")


@dataclass(frozen=True, slots=True)
class GapAlert:
    """An alert about one gap; notifiers are called with it."""

    trigger: str
    key: UUID
    """The sequence. It contains no data of an event."""
    high_water_mark: int | None
    parked: int
    since: datetime
    sentence: str
    cleared: bool
    """Whether the gap is closed or given up."""


def list_watched(connection: Connection) -> list[tuple[str, list[str]]]:
    """Return each trigger with sequences by its name, and the notifiers of its stored definition."""
    return connection.execute(_QUERIES["watched"]).fetchall()


def claim(connection: Connection, trigger: Trigger) -> list[GapAlert]:
    """Return the alerts that are due for the sequences of a trigger, and record them; commits.

    The thresholds are those of the stored definition of the trigger.
    """
    with connection.transaction():
        found = connection.execute(_QUERIES["thresholds"], {"trigger_id": trigger.id}).fetchone()
        if found is None:
            return []
        arguments = {"trigger_id": trigger.id, "above_parked": found[0], "after_seconds": found[1]}
        closed = connection.execute(_QUERIES["claim_closed"], arguments).fetchall()
        opened = connection.execute(_QUERIES["claim_open"], arguments).fetchall()
    return [_closed(trigger.name, *row) for row in closed] + [_open(trigger.name, *row) for row in opened]


def _open(trigger: str, key: UUID, mark: int | None, parked: int, since: datetime) -> GapAlert:
    sentence = (
        f"Trigger {trigger}: sequence {key} has a gap above number {mark} since {times.show(since)}, and {parked} work "
        f"orders are parked above it. They are kept, and admitted when the gap is filled. To give it up, run "
        f'`workorders sequences skip {trigger} {key} --reason "..."`, or release instead of skip.'
    )
    return GapAlert(trigger, key, mark, parked, since, sentence, cleared=False)


def _closed(trigger: str, key: UUID, mark: int | None, parked: int, since: datetime) -> GapAlert:
    sentence = (
        f"Trigger {trigger}: the gap of sequence {key} that began at {times.show(since)} is closed; its "
        f"high-water mark is {mark}."
    )
    return GapAlert(trigger, key, mark, parked, since, sentence, cleared=True)
