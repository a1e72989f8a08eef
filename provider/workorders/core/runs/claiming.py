"""Claiming: which runs a worker executes next."""

import random
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

from workorders.core import workers
from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.core.runs import lifecycle
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/claiming.sql")

MAX_BYTES: Final = 64 * 1024 * 1024
"""A claim ends when its inputs reach this size."""
_WINDOW: Final = 1000
"""How many work orders at the head of the queue are searched for free ordering keys first."""
_STEPS: Final = 10_000
"""How many more ordering keys are looked at one by one."""
_LOWEST_KEY: Final = -(2**63)
_OLDEST: Final = UUID(int=0)
_LOOK_BACK_SECONDS: Final = 5.0
"""Seconds after which a claim begins with the oldest work order again."""


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """One attempt at a work order that a worker owns, with its input."""

    run_id: UUID
    work_order_id: UUID
    attempt: int
    """1 for the first run of the work order."""
    retry: int
    """How many automatic retries came before it, since the work order was created or a person asked for a rerun."""
    ordering_key: int | None
    """A worker executes runs with the same ordering key one after the other, in the order given."""
    trigger: str
    stream: str | None
    position: int | None
    request: bytes
    """Metadata of the event, a JSON object."""
    body: bytes | None
    """The input, a JSON object; None if it was wiped, or cannot be read."""
    is_unreadable: bool = False
    """Whether Postgres holds an input that it cannot write out, because it is too long as text."""


@dataclass(frozen=True, slots=True)
class Claimable:
    """Whether a workflow has something to do now."""

    workflow: str
    is_claimable: bool = False
    """Whether `claim` would return a run, unless another transaction has it locked."""
    has_lost: bool = False
    """Whether a run is to be recovered, because its worker sent no heartbeat for `GRACE_SECONDS`."""


class ClaimCursor:
    """How far the claims of one worker have come in the queue of its workflow.

    Older entries are work orders that wait for a retry, perhaps very many, dead index entries since the last VACUUM,
    and sometimes a work order whose transaction took long or was rolled back. A claim looks at them every few seconds.
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
    worker_id: UUID,
    cursor: ClaimCursor | None = None,
    one_per_ordering_key: bool = False,
) -> list[ClaimedRun]:
    """Claim up to `limit` runs for a worker, inside the caller's transaction, and return them with their inputs.

    There are fewer if their inputs reach `MAX_BYTES`, or if an input cannot be read; the runs after it wait again.

    Runs that exist and are due come first, by priority and age. Work orders that wait for their first run follow,
    oldest first. Runs with the same ordering key go to one worker at a time, in the order of the source.

    The caller commits before it executes them. Until then no other worker gets these runs, and claims of a workflow
    with a concurrency or an ordering key wait for each other.

    Args:
        connection: in the caller's transaction.
        workflow: whose runs.
        limit: the maximum number of runs.
        worker_id: who owns them from then on.
        cursor: where the last claim ended; ignored for a workflow with a concurrency or an ordering key. An old work
            order that appears late is claimed some seconds later.
        one_per_ordering_key: whether to claim no second run with the same ordering key.

    Raises:
        OwnershipLostError: the worker has no row, so it may own no run.
        psycopg.Error: the database failed; nothing is claimed.
    """
    if limit < 1:
        return []
    workers.lock_worker(connection, worker_id)
    definition = workflow.definition
    if definition is None or (definition.concurrency is None and definition.ordering_key is None):
        return _claim_from(cursor or ClaimCursor(), connection, workflow, limit, worker_id)
    capacity = _lock(connection, workflow, limit)
    if capacity < 1:
        return []
    if definition.ordering_key is None:
        return _claim(connection, workflow, capacity, worker_id)
    return _claim_ordering_keys(connection, workflow, capacity, worker_id, one_per_ordering_key=one_per_ordering_key)


def claimable_statement(names: Iterable[str]) -> tuple[LiteralString, dict[str, Any]]:
    """Return the statement whose rows are the fields of the `Claimable`s of those workflows that have something to do.

    It is a statement and no function, because triggers of Airflow run it asynchronously.
    """
    asked = {"names": list(names), "grace_seconds": workers.GRACE_SECONDS, "window": _WINDOW}
    return _QUERIES["claimable_workflows"], asked


def find_claimable(connection: Connection, workflow: Workflow) -> Claimable:
    """Return whether a workflow has something to do; nothing is changed or locked.

    Raises:
        psycopg.Error: the database failed.
    """
    row = connection.execute(*claimable_statement([workflow.name])).fetchone()
    return Claimable(*row) if row else Claimable(workflow.name)


def claimed(
    connection: Connection, workflow: Workflow, worker_id: UUID, *, but: Collection[UUID] = ()
) -> list[ClaimedRun]:
    """Return the unfinished runs that a worker still owns, in the order in which it must execute them.

    There are fewer, and the others wait again, as in `claim`. `but` are runs that it already knows: they are neither
    returned nor released.
    """
    return _runs(connection, "claimed", {"workflow_id": workflow.id, "worker_id": worker_id, "but": list(but)})


def _lock(connection: Connection, workflow: Workflow, limit: int) -> int:
    """Return how many runs may be claimed, and block other claims of the workflow until the transaction ends."""
    (concurrency,) = fetch_row(connection, _QUERIES["lock_workflow"], {"workflow_id": workflow.id})
    if concurrency is None:
        return limit
    asked = {"workflow_id": workflow.id, "concurrency": concurrency}
    # A statement of its own: only that one sees what was committed while the lock was awaited.
    (at_work,) = fetch_row(connection, _QUERIES["count_at_work"], asked)
    return min(limit, int(concurrency - at_work))


def _claim_from(
    cursor: ClaimCursor, connection: Connection, workflow: Workflow, limit: int, worker_id: UUID
) -> list[ClaimedRun]:
    found: list[ClaimedRun] = []
    if cursor.is_valid:
        found = _claim(connection, workflow, limit, worker_id, cursor.from_id)
        cursor.advance(found)
        if len(found) == limit:
            return found
    rest = _claim(connection, workflow, limit - len(found), worker_id)
    cursor.look_back(rest)
    return found + rest


def _claim(
    connection: Connection, workflow: Workflow, limit: int, worker_id: UUID, from_id: UUID = _OLDEST
) -> list[ClaimedRun]:
    arguments = {
        "workflow_id": workflow.id,
        "limit": limit,
        "worker_id": worker_id,
        "ids": run_ids(limit),
        "from_id": from_id,
    }
    return _runs(connection, "claim", arguments)


def _claim_ordering_keys(
    connection: Connection, workflow: Workflow, limit: int, worker_id: UUID, *, one_per_ordering_key: bool
) -> list[ClaimedRun]:
    asked = {"workflow_id": workflow.id, "limit": limit, "window": max(_WINDOW, 10 * limit)}
    found = connection.execute(_QUERIES["free_at_the_head"], asked).fetchall()
    shares = {
        ordering_key: 1 if one_per_ordering_key else share
        for ordering_key, share, work_order_id in found
        if ordering_key is not None
    }
    alone = [work_order_id for ordering_key, _, work_order_id in found if ordering_key is None]
    missing = limit - sum(shares.values()) - len(alone)
    # If a few busy ordering keys fill the head of the queue, the index finds the others, from a random start.
    for start in (random.randint(_LOWEST_KEY, -_LOWEST_KEY - 1), _LOWEST_KEY):  # noqa: S311 - no secret
        if missing < 1:
            break
        ordering_keys = connection.execute(
            _QUERIES["free_ordering_keys"],
            {**asked, "limit": missing, "start": start, "steps": _STEPS, "known": list(shares)},
        ).fetchall()
        shares |= {ordering_key: 1 for (ordering_key,) in ordering_keys}
        missing -= len(ordering_keys)
    if not shares and not alone:
        return []
    arguments = {
        "workflow_id": workflow.id,
        "worker_id": worker_id,
        "ids": run_ids(limit),
        "ordering_keys": list(shares),
        "shares": list(shares.values()),
        "alone": alone,
    }
    return _runs(connection, "claim_heads", arguments)


def _runs(connection: Connection, query: str, arguments: dict[str, Any]) -> list[ClaimedRun]:
    # A statement of its own reads the inputs: one that cannot be read must not undo the claim of the others.
    found = connection.execute(_QUERIES[query], arguments).fetchall()
    if not found:
        return []
    # Binary, because a bytea as text takes two hexadecimal digits per byte.
    with connection.cursor(binary=True) as cursor:
        asked = {"ids": [row[1] for row in found], "max_bytes": MAX_BYTES}
        inputs = cursor.execute(_QUERIES["inputs"], asked).fetchall()
    if len(inputs) < len(found):
        lifecycle.release(connection, arguments["worker_id"], [row[0] for row in found[len(inputs) :]])
    return [ClaimedRun(*row, *input_) for row, input_ in zip(found, inputs, strict=False)]
