"""Alerts: one for each long stall, and one when it ends.

The statement that finds a due stall also records that its alert was claimed, so one of several concurrent attempts gets
it. The alert is sent after that commit: a crash between the two loses the alert, and no crash repeats it.
"""

from dataclasses import dataclass
from datetime import datetime

from workorders import times
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.kafka.ledger", "sql/stall_alerts.sql")


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert about one stall: the argument of a notifier."""

    trigger: str
    topic: str
    partition: int
    next_offset: int
    """First offset without a work order."""
    end_offset: int | None
    """End of the range that cannot be ingested; None after the stall."""
    since: datetime
    """Start of the stall, by the database's clock."""
    attempts: int
    """Attempts at the range so far; 0 after the stall."""
    sentence: str
    """The whole alert as text."""
    cleared: bool
    """Whether the stall is over."""


def claim(connection: Connection, trigger: Trigger, *, after_seconds: float) -> list[Alert]:
    """Return the alerts of stalls that are older than `after_seconds`, record that they were claimed, and commit."""
    arguments = {"trigger_id": trigger.id, "after_seconds": after_seconds}
    with connection.transaction():
        over = connection.execute(_QUERIES["claim_cleared"], arguments).fetchall()
        due = connection.execute(_QUERIES["claim_stalled"], arguments).fetchall()
    return [_cleared(trigger.name, *row) for row in over] + [_stalled(trigger.name, *row) for row in due]


def _stalled(  # noqa: PLR0917 - the columns of one query
    trigger: str,
    topic: str,
    partition: int,
    next_offset: int,
    end_offset: int | None,
    since: datetime,
    attempts: int,
    last_error: str | None,
) -> Alert:
    place = f"{topic} {partition}" if end_offset is None else f"{topic} {partition} [{next_offset}, {end_offset})"
    reason = one_line(last_error or "No error was recorded.")
    sentence = (
        f"Trigger {trigger}: {place} has been stalled since {times.show(since)}, and attempt {attempts} failed as "
        f"well. {reason} Nothing is skipped, and the retries continue indefinitely."
    )
    return Alert(trigger, topic, partition, next_offset, end_offset, since, attempts, sentence, cleared=False)


def _cleared(trigger: str, topic: str, partition: int, next_offset: int, since: datetime) -> Alert:
    sentence = (
        f"Trigger {trigger}: the stall of {topic} {partition} that began at {times.show(since)} has ended; "
        f"the ledger is at offset {next_offset}."
    )
    return Alert(trigger, topic, partition, next_offset, None, since, 0, sentence, cleared=True)
