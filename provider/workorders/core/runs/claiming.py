"""Claiming: which runs a worker executes next."""

import random
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from workorders.core import workers
from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import StoredSteps
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/claiming.sql")

MAX_BYTES: Final = 64 * 1024 * 1024
"""A claim ends when its inputs reach this size."""
_WINDOW: Final = 1000
"""How many work orders at the head of the queue are searched for free ordering keys before the other keys are."""
_LOWEST_KEY: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """One attempt at a work order that a worker owns, with its input."""

    run_id: UUID
    work_order_id: UUID
    attempt: int
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
    stored: StoredSteps | None = None
    """The steps that earlier attempts have stored; None if it is the first attempt."""

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        results = self.stored[1] if self.stored else ()
        return len(self.body or b"") + len(self.request) + sum(len(result) for _, result in results)


@dataclass(frozen=True, slots=True)
class Claimable:
    """What a workflow has to do now."""

    workflow: str
    is_claimable: bool
    """Whether `claim` would return a run, unless another transaction has it locked."""
    has_lost: bool
    """Whether a run is to be recovered, because its worker sent no heartbeat in its grace period."""


def claim(
    connection: Connection,
    workflow: Workflow,
    *,
    limit: int,
    worker_id: UUID,
    one_per_ordering_key: bool = False,
) -> list[ClaimedRun]:
    """Claim up to `limit` runs for a worker, inside the caller's transaction, and return them with their inputs.

    There are fewer if their inputs reach `MAX_BYTES`, or if an input cannot be read; the runs after it wait again.

    Runs that exist and are due come first, by priority and age. Work orders that wait for their first run follow,
    oldest first. Runs with the same ordering key go to one worker at a time, each stream in the order of its source.
    Between the next ones of its streams, a run that exists comes first, and then the older work order.

    The caller commits before it executes them. Until then no other worker gets these runs, and claims of a workflow
    with a concurrency or an ordering key wait for each other.

    Raises:
        OwnershipLostError: the worker has no row, so it may own no run.
        psycopg.Error: the database failed; nothing is claimed.
    """
    if limit < 1:
        return []
    workers.lock_worker(connection, worker_id)
    definition = workflow.definition
    query, asked = "claim", dict[str, Any](workflow_id=workflow.id, worker_id=worker_id)
    if definition and (definition.concurrency is not None or definition.ordering_key is not None):
        # Other claims of the workflow wait until this transaction ends.
        concurrency, _ = fetch_row(connection, _QUERIES["lock_workflow"], {"workflow_id": workflow.id})
        if concurrency is not None:
            given = {"workflow_id": workflow.id, "concurrency": concurrency}
            # A separate statement: only that one sees what was committed while the lock was awaited.
            (at_work,) = fetch_row(connection, _QUERIES["count_at_work"], given)
            limit = min(limit, concurrency - at_work)
        if limit < 1:
            return []
    if definition and definition.ordering_key is not None:
        query, window = "claim_free_keys", _WINDOW + limit
        asked |= {
            "window": window,
            "start": random.randint(_LOWEST_KEY, -_LOWEST_KEY - 1),  # noqa: S311 - no secret
            "per_key": 1 if one_per_ordering_key else limit,
            # With one per key, the head may have many of one: 3 lists of the window are read, and then the other keys.
            "looked_at": 3 * window + limit if one_per_ordering_key else limit,
        }
    return _runs(connection, query, {**asked, "limit": limit, "ids": run_ids(limit)})


def list_claimable(connection: Connection, names: Collection[str]) -> list[Claimable]:
    """Return those of the workflows that have something to do now; nothing is changed or locked."""
    asked = {"names": list(names), "window": _WINDOW, "start": _LOWEST_KEY}
    return [Claimable(*row) for row in connection.execute(_QUERIES["claimable_workflows"], asked)]


def claimed(
    connection: Connection, workflow: Workflow, worker_id: UUID, *, but: Collection[UUID] = ()
) -> list[ClaimedRun]:
    """Return the unfinished runs that a worker still owns, `but` some of them, the oldest work order first.

    There are fewer, and the others wait again, as in `claim`.
    """
    return _runs(connection, "claimed", {"workflow_id": workflow.id, "worker_id": worker_id, "but": list(but)})


def _runs(connection: Connection, query: str, arguments: dict[str, Any]) -> list[ClaimedRun]:
    # Binary, because a bytea as text takes two hexadecimal digits per byte, and other values take longer to read.
    with connection.cursor(binary=True) as cursor:
        found = cursor.execute(_QUERIES[query], arguments).fetchall()
        if not found:
            return []
        # A separate statement reads the inputs: one that cannot be read must not undo the claim of the others.
        asked = {"ids": [row[1] for row in found], "max_bytes": MAX_BYTES}
        inputs = cursor.execute(_QUERIES["inputs"], asked).fetchall()
    if len(inputs) < len(found):
        lifecycle.release(connection, arguments["worker_id"], [row[0] for row in found[len(inputs) :]])
    runs = [ClaimedRun(*row, *input_) for row, input_ in zip(found, inputs, strict=False)]
    again = [run.run_id for run in runs if run.attempt > 1]
    if not again:
        return runs
    stored = lifecycle.find_steps(connection, again)
    return [replace(run, stored=stored.get(run.run_id)) for run in runs]
