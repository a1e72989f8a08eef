"""Gaps in sequences: a list of them, the decisions of an operator about one, and alerts.

As with stalls, the statement that finds a due alert also records it, and it is sent after the commit. A crash between
the two loses the alert, and none is sent twice.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from workorders import times
from workorders.core.admission import limits, sequences
from workorders.core.admission.limits import LimitSettings
from workorders.core.admission.sequences import Decision, Numbered, SequenceState, drain_contiguous
from workorders.core.attribution import Attribution
from workorders.core.exceptions import UnknownNameError, WorkOrdersError
from workorders.core.postgres.connection import Connection, find_row, list_rows
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import canonical, hash128
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/gaps.sql")


class GapRefusedError(WorkOrdersError):
    """A decision does not apply to the sequence as it is now; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A sequence with parked work orders."""

    trigger: str
    key: UUID
    """Identifies the sequence in logs. It contains no data of an event."""
    name: str
    """The key as JSON, cut after 200 characters."""
    high_water_mark: int | None
    """Every number up to here is admitted or given up."""
    next_parked: int
    """The first number above the gap."""
    next_id: UUID
    """The work order of that number."""
    parked: int
    parked_since: datetime | None
    alerted: bool

    @property
    def missing(self) -> str:
        """Return the numbers of the gap as text."""
        if self.high_water_mark is None:
            return f"before {self.next_parked}"
        first, last = self.high_water_mark + 1, self.next_parked - 1
        return str(first) if first == last else f"{first} to {last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GapBefore(Gap):
    """The first gap of the sequence in which a work order is parked."""

    number: int
    """The number of the work order."""


@dataclass(frozen=True, slots=True)
class GapAlert:
    """An alert about one gap; notifiers are called with it."""

    trigger: str
    key: UUID
    """The sequence. It contains no data of an event."""
    high_water_mark: int | None
    parked: int
    since: datetime
    cleared: bool
    """Whether the gap is closed or given up."""

    @property
    def sentence(self) -> str:
        """Return the alert as text."""
        since = times.show(self.since)
        if self.cleared:
            return (
                f"Trigger {self.trigger}: the gap of sequence {self.key} that began at {since} is closed; its "
                f"high-water mark is {self.high_water_mark}."
            )
        return (
            f"Trigger {self.trigger}: sequence {self.key} has a gap above number {self.high_water_mark} since {since}, "
            f"and {self.parked} work orders are parked above it. They are kept, and admitted when the gap is filled. "
            f'To give it up, run `workorders sequences skip {self.trigger} {self.key} --reason "..."`, or release '
            f"instead of skip."
        )


def list_gaps(
    connection: Connection,
    *,
    trigger: str | None = None,
    workflow: str | None = None,
    limit: int = 50,
    max_read: int | None = 1_000,
) -> list[Gap]:
    """Return sequences with parked work orders, of a trigger, of all triggers of a workflow, or all.

    The longest wait comes first, among the first `max_read` sequences, so that a page takes no longer with more gaps.
    """
    wanted = {"trigger": trigger, "workflow": workflow, "max_read": max_read, "limit": limit}
    return list_rows(connection, Gap, _QUERIES["gaps"], wanted)


def find_before(connection: Connection, work_order_id: UUID) -> GapBefore | None:
    """Return the gap for which a work order is parked; None if it is not parked."""
    return find_row(connection, GapBefore, _QUERIES["gap_before"], {"work_order_id": work_order_id})


def find(connection: Connection, trigger: Trigger, text: str) -> UUID:
    """Return the key of a sequence by its id, its value, or its value as JSON."""
    wanted = [hash128(canonical(text)).hex()]
    with suppress(ValueError):
        wanted.append(UUID(text).hex)
    with suppress(ValueError):
        wanted.append(hash128(canonical(json.loads(text))).hex())
    rows = connection.execute(_QUERIES["known"], {"trigger_id": trigger.id, "keys": wanted}).fetchall()
    if not rows:
        raise UnknownNameError(
            f"Trigger {trigger.name} has no sequence of that key; nothing was changed; see `workorders sequences list`."
        )
    return UUID(str(rows[0][0]))


def skip(connection: Connection, trigger: Trigger, key: UUID, by: Attribution) -> list[int]:
    """Give up the numbers of the first gap, and admit what is parked above it up to the next gap; commits.

    Returns:
        The numbers that were admitted. A number of the gap that comes later is rejected as late.

    Raises:
        GapRefusedError: no work order is parked.
    """
    return _admit_parked(connection, trigger, key, by, "skip")


def release(connection: Connection, trigger: Trigger, key: UUID, by: Attribution) -> list[int]:
    """Give up all gaps, and admit all parked work orders in the order of their numbers; commits."""
    return _admit_parked(connection, trigger, key, by, "release")


def drop(connection: Connection, trigger: Trigger, key: UUID, by: Attribution) -> None:
    """Delete a sequence that is finished; if its key comes again, it begins again; commits."""
    with connection.transaction():
        state = _lock(connection, trigger, key)
        if state.parked:
            raise GapRefusedError(
                f"Sequence {key} of trigger {trigger.name} has {len(state.parked)} parked work orders and cannot be "
                f"dropped; nothing was changed; skip or release them first."
            )
        connection.execute(_QUERIES["drop"], {"trigger_id": trigger.id, "key": key})
        mark = state.high_water_mark
        _record(connection, trigger, key, by, kind="drop", from_number=mark, to_number=None, released=0)


def _admit_parked(
    connection: Connection, trigger: Trigger, key: UUID, by: Attribution, kind: Literal["skip", "release"]
) -> list[int]:
    limited = LimitSettings.of(trigger)
    with connection.transaction():
        if limited is not None:  # before the sequence, as every transaction does
            limits.lock_count(connection, trigger.workflow_id)
        state = _lock(connection, trigger, key)
        if not state.parked:
            raise GapRefusedError(
                f"Sequence {key} of trigger {trigger.name} has no gap: no work order is parked; nothing was changed."
            )
        admitted: list[Numbered] = []
        while state.parked:
            before, state.high_water_mark = state.high_water_mark, min(state.parked) - 1
            next_ones = list(drain_contiguous(key.bytes, state))
            end, count = next_ones[0].number - 1, len(next_ones)
            _record(connection, trigger, key, by, kind=kind, from_number=before, to_number=end, released=count)
            admitted += next_ones
            if kind == "skip":
                break
        decision = Decision(released=admitted, admitted_in_order=admitted)
        sequences.write(connection, trigger, {key.bytes: state}, decision)
        if limited is not None:
            limits.count(connection, trigger.workflow_id, len(admitted))
    return [part.number for part in admitted]


def _lock(connection: Connection, trigger: Trigger, key: UUID) -> SequenceState:
    found = sequences.lock_high_water_marks(connection, trigger.id, [key.bytes])
    if key.bytes not in found:
        raise UnknownNameError(f"Trigger {trigger.name} has no sequence {key} any more; nothing was changed.")
    state = SequenceState(found[key.bytes][0])
    sequences.fetch_parked(connection, trigger.id, {key.bytes: state}, found)
    return state


def _record(connection: Connection, trigger: Trigger, key: UUID, by: Attribution, **decision: object) -> None:
    arguments = {**asdict(by), "trigger_id": trigger.id, "key": key, **decision}
    connection.execute(_QUERIES["record"], arguments)


def list_watched(connection: Connection) -> list[tuple[str, list[str]]]:
    """Return each trigger with sequences by its name, and the notifiers of its stored definition."""
    return connection.execute(_QUERIES["watched"]).fetchall()


def claim_alerts(connection: Connection, trigger: Trigger) -> list[GapAlert]:
    """Return the alerts that are due for the sequences of a trigger, and record them; commits.

    The thresholds are those of the stored definition of the trigger.
    """
    with connection.transaction():
        rows = connection.execute(_QUERIES["claim_alerts"], {"trigger_id": trigger.id}).fetchall()
    return [
        GapAlert(trigger.name, key, mark, parked, since, cleared)
        for key, mark, parked, closed_since, open_since in rows
        for since, cleared in ((closed_since, True), (open_since, False))
        if since is not None
    ]
