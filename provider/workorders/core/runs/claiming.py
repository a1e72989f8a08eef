"""Claiming: which runs a group works through next."""

import random
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, LiteralString
from uuid import UUID

from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.runs import lifecycle
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/claiming.sql")

MAX_BYTES: Final = 64 * 1024 * 1024
"""With so many bytes of inputs a claim is full."""
_WINDOW: Final = 1000
"""Work orders at the head of the queue among which lanes that are free are sought first."""
_STEPS: Final = 10_000
"""Lanes that are looked at one by one beyond that."""
_LOWEST_LANE: Final = -(2**63)
_OLDEST: Final = UUID(int=0)
_LOOK_BACK_SECONDS: Final = 5.0
"""Time after which a claim begins with the oldest work order again."""


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """One attempt at a work order that a group owns, with its input."""

    run_id: UUID
    work_order_id: UUID
    attempt: int
    """1 for the first run of the work order."""
    retry: int
    """How many automatic retries came before it, since the work order was made or a person asked for a rerun."""
    lane: int | None
    """Runs of one lane in one group are worked through one after the other, in the order given."""
    trigger: str
    stream: str | None
    position: int | None
    work_order_created_at: datetime
    request: bytes
    """Metadata of the event, a JSON object."""
    body: bytes | None
    """The input, a JSON object; None when it was wiped, or cannot be read."""
    is_unreadable: bool = False
    """Whether Postgres holds an input that it cannot write out, because it is too long as text."""


class ClaimCursor:
    """How far the claims of one worker have come in the queue of its workflow.

    Before it are work orders that wait for a retry, perhaps very many, the dead index entries of all that was claimed
    since the last VACUUM, and now and then a work order whose transaction took long, or was rolled back. Those are
    found by a look back every few seconds.
    """

    def __init__(self) -> None:
        self.from_id = _OLDEST
        self._until = 0.0

    @property
    def is_valid(self) -> bool:
        """Whether the next claim begins here; otherwise it begins with the oldest work order."""
        return time.monotonic() < self._until

    def advance(self, claimed: list[ClaimedRun]) -> None:
        """Move to the last work order that was claimed for the first time."""
        self.from_id = max((run.work_order_id for run in claimed if run.attempt == 1), default=self.from_id)

    def look_back(self, claimed: list[ClaimedRun]) -> None:
        """Begin here from now on, after a claim that began with the oldest work order."""
        first_runs = [run.work_order_id for run in claimed if run.attempt == 1]
        if first_runs:
            self.from_id, self._until = max(first_runs), time.monotonic() + _LOOK_BACK_SECONDS


def claim(
    connection: Connection,
    workflow: Workflow,
    *,
    limit: int,
    group_id: UUID,
    cursor: ClaimCursor | None = None,
    one_per_lane: bool = False,
) -> list[ClaimedRun]:
    """Claim up to `limit` runs for a group, inside the caller's transaction, and return them with their inputs.

    They are fewer when their inputs reach `MAX_BYTES`, or behind one that cannot be read; the others wait again.

    First come runs that exist and are due, by priority and age; then work orders that wait for their first run, oldest
    first. In a workflow with lanes a lane goes to one group at a time, in the order of the source.

    The caller commits before it works: until then nobody else gets these runs, and claims of a workflow with a
    concurrency or lanes wait for each other.

    Args:
        connection: in the caller's transaction.
        workflow: whose runs.
        limit: most runs to claim.
        group_id: the group.
        cursor: without a concurrency and lanes, where the last claim ended. An old work order that appears late is
            then claimed some seconds later.
        one_per_lane: whether to claim no second run of a lane.

    Raises:
        psycopg.Error: the database failed; nothing is claimed.
    """
    if limit < 1:
        return []
    definition = workflow.definition
    if definition is None or (definition.concurrency is None and definition.lane is None):
        return _claim_from(cursor or ClaimCursor(), connection, workflow, limit, group_id)
    room = _lock(connection, workflow, limit)
    if room < 1:
        return []
    if definition.lane is None:
        return _claim(connection, workflow, room, group_id)
    return _claim_lanes(connection, workflow, room, group_id, one_per_lane=one_per_lane)


def free_lane_statements(workflow: Workflow) -> list[tuple[LiteralString, dict[str, Any]]]:
    """Return statements of which one has a row if a run of a workflow with lanes can be claimed."""
    asked = {"workflow_id": workflow.id, "limit": 1, "window": _WINDOW}
    lanes = {**asked, "start": _LOWEST_LANE, "steps": _STEPS, "known": []}
    return [(_QUERIES["free_at_the_head"], asked), (_QUERIES["free_lanes"], lanes)]


def claimed(
    connection: Connection, workflow: Workflow, group_id: UUID, *, but: Collection[UUID] = ()
) -> list[ClaimedRun]:
    """Return the unfinished runs that a group still owns, in the order in which they are to be worked through.

    They are fewer, and others wait again, as with `claim`.

    Args:
        connection: in the caller's transaction.
        workflow: whose runs.
        group_id: the group.
        but: runs that it has in hand: they are neither returned nor given back.
    """
    return _runs(connection, "claimed", {"workflow_id": workflow.id, "group_id": group_id, "but": list(but)})


def _lock(connection: Connection, workflow: Workflow, limit: int) -> int:
    """Return how many runs may be claimed, and hold up other claims of the workflow until the transaction ends."""
    row = connection.execute(_QUERIES["lock_workflow"], {"workflow_id": workflow.id}).fetchone()
    concurrency = row[0] if row else None
    if concurrency is None:
        return limit
    # Asked in a statement of its own: only that one sees what the claim waited for.
    at_work = connection.execute(
        _QUERIES["count_at_work"], {"workflow_id": workflow.id, "concurrency": concurrency}
    ).fetchone()
    return min(limit, int(concurrency) - (at_work[0] if at_work else 0))


def _claim_from(
    cursor: ClaimCursor, connection: Connection, workflow: Workflow, limit: int, group_id: UUID
) -> list[ClaimedRun]:
    found: list[ClaimedRun] = []
    if cursor.is_valid:
        found = _claim(connection, workflow, limit, group_id, cursor.from_id)
        cursor.advance(found)
        if len(found) == limit:
            return found
    rest = _claim(connection, workflow, limit - len(found), group_id)
    cursor.look_back(rest)
    return found + rest


def _claim(
    connection: Connection, workflow: Workflow, limit: int, group_id: UUID, from_id: UUID = _OLDEST
) -> list[ClaimedRun]:
    arguments = {
        "workflow_id": workflow.id,
        "limit": limit,
        "group_id": group_id,
        "ids": run_ids(limit),
        "from_id": from_id,
    }
    return _runs(connection, "claim", arguments)


def _claim_lanes(
    connection: Connection, workflow: Workflow, limit: int, group_id: UUID, *, one_per_lane: bool
) -> list[ClaimedRun]:
    asked = {"workflow_id": workflow.id, "limit": limit, "window": max(_WINDOW, 10 * limit)}
    found = connection.execute(_QUERIES["free_at_the_head"], asked).fetchall()
    shares = {lane: 1 if one_per_lane else share for lane, share, work_order_id in found if lane is not None}
    alone = [work_order_id for lane, _, work_order_id in found if lane is None]
    missing = limit - sum(shares.values()) - len(alone)
    # Where a few busy lanes fill the head of the queue, the others are found by their index, from anywhere on.
    for start in (random.randint(_LOWEST_LANE, -_LOWEST_LANE - 1), _LOWEST_LANE):  # noqa: S311 - no secret
        if missing < 1:
            break
        lanes = connection.execute(
            _QUERIES["free_lanes"], {**asked, "limit": missing, "start": start, "steps": _STEPS, "known": list(shares)}
        ).fetchall()
        shares |= {lane: 1 for (lane,) in lanes}
        missing -= len(lanes)
    if not shares and not alone:
        return []
    arguments = {
        "workflow_id": workflow.id,
        "group_id": group_id,
        "ids": run_ids(limit),
        "lanes": list(shares),
        "shares": list(shares.values()),
        "alone": alone,
    }
    return _runs(connection, "claim_heads", arguments)


def _runs(connection: Connection, query: str, arguments: dict[str, Any]) -> list[ClaimedRun]:
    # The inputs are read by a statement of their own: one that cannot be read must not undo the claim of the others.
    found = connection.execute(_QUERIES[query], arguments).fetchall()
    if not found:
        return []
    # Binary, for a bytea travels as two hexadecimal digits a byte otherwise.
    with connection.cursor(binary=True) as cursor:
        asked = {"ids": [row[1] for row in found], "max_bytes": MAX_BYTES}
        inputs = cursor.execute(_QUERIES["inputs"], asked).fetchall()
    if len(inputs) < len(found):
        lifecycle.release(connection, arguments["group_id"], [row[0] for row in found[len(inputs) :]])
    return [ClaimedRun(*row, *input_) for row, input_ in zip(found, inputs, strict=False)]
