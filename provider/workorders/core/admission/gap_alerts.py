"""Alerts for gaps: one when a gap lasts too long or parks too much, one when it is closed, whoever notices it.

As with stalls, the statement that finds a gap due also writes down that it was claimed; the alert is said after that
commit, so that a crash between the two loses it and none repeats it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/gaps.sql")


@dataclass(frozen=True, slots=True)
class GapAlert:
    """What is said of one gap, and what a notifier is called with."""

    trigger: str
    key: UUID
    """The sequence; no event's data."""
    mark: int | None
    parked: int
    since: datetime
    sentence: str
    """All of it in one plain sentence or two."""
    cleared: bool
    """Whether the gap is closed, or given up."""


def claim(connection: Connection, trigger: Trigger) -> list[GapAlert]:
    """Return the alerts that are due for a trigger's sequences, and write down that they are; commits.

    How long and how much is too much stands in the trigger's definition, as it was when it last planned.
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
        f"Trigger {trigger}: sequence {key} has had a gap behind number {mark} since {_time(since)}, and {parked} work "
        f"orders are parked behind it. They are kept, and let in when the gap is filled; to give it up, "
        f'`workorders sequences skip {trigger} {key} --why "..."`, or wait or release in place of skip.'
    )
    return GapAlert(trigger, key, mark, parked, since, sentence, cleared=False)


def _closed(trigger: str, key: UUID, mark: int | None, parked: int, since: datetime) -> GapAlert:
    sentence = (
        f"Trigger {trigger}: the gap of sequence {key} that began at {_time(since)} is closed; its mark stands at "
        f"{mark}."
    )
    return GapAlert(trigger, key, mark, parked, since, sentence, cleared=True)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
