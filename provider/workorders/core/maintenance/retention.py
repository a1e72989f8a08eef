"""Retention: wipes old inputs, outputs and logs, and deletes old work orders, as each workflow's definition requires.

A trigger type may announce a function that shortens its own tables, which then runs as well.

It runs in small steps. Each is a transaction that locks its own work orders only, followed by a pause of the same
length. New work orders never wait for it, nor it for them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import entry_points
from typing import Any, Final
from uuid import UUID

from psycopg.rows import class_row

from workorders.core.admission import duplicates
from workorders.core.exceptions import WorkOrdersError
from workorders.core.history import search_index
from workorders.core.history.filters import CLOCKS_APART
from workorders.core.ids import first_id, time_of
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.maintenance", "sql/retention.sql")

STEP: Final = 1_000
_MAX_PAUSE: Final = 1.0
_LOOK: Final = 20
"""A step reads this many times more work orders than it may delete or wipe: those that are kept cost little."""
_SETTLED: Final = timedelta(days=1)
"""Older ids than this are all visible: no transaction that creates work orders lasts as long."""
_ERASED: Final = "(erased)"
"""Replaces the text of a job's filter."""
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)

_INTERVAL: Final = timedelta(days=1)
_SILENCE: Final = timedelta(minutes=10)
"""After this time without a step, a process that ran retention is assumed dead. A step takes seconds."""

RETENTION_GROUP: Final = "workorders.retention"
"""Entry points by which a trigger type announces a `Shorten`."""
Shorten = Callable[[Connection, datetime], Iterator[None]]
"""Deletes old rows of a trigger type's own tables, before work orders are deleted.

It receives the connection, and the time that ages are counted to. It yields after each step, which is in a transaction
that the caller has opened."""
_DONE: Final = object()


class RetentionBusyError(WorkOrdersError):
    """Another process runs retention."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How long a workflow keeps its data; None means indefinitely."""

    workflow_id: int
    workflow: str
    days: float | None
    """Work orders that ended well, or were cancelled, are deleted after this number of days."""
    keep_errors_days: float | None
    """All others that have ended are deleted after this number of days, but never before those that ended well."""
    wipe_bodies_after_days: float | None
    """Inputs, requests, raw values, outputs, logs and the texts of errors are wiped after this number of days."""

    def good_before(self, now: datetime) -> datetime:
        """Return the time before which good work orders are deleted."""
        return _before(now, self.days)

    def errors_before(self, now: datetime) -> datetime:
        """Return the time before which work orders with errors are deleted."""
        if self.days is None:
            return _before(now, self.keep_errors_days)
        return _before(now, max(self.days, self.keep_errors_days or 0))

    def wipe_before(self, now: datetime) -> datetime:
        """Return the time before which inputs are wiped."""
        return _before(now, self.wipe_bodies_after_days)

    def erase_before(self, now: datetime) -> datetime:
        """Return the time before which data that is kept apart from the work orders is erased too."""
        return max(self.wipe_before(now), self.errors_before(now))


@dataclass(frozen=True, slots=True)
class RetentionPreview:
    """What retention did with a workflow, or would do."""

    workflow: str
    wiped: int
    deleted: int


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """What one run of retention did."""

    wiped: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class RetentionStatus:
    """How far retention has come with a workflow."""

    last_ended_at: datetime | None
    """When it last ended without a failure, for all workflows; None if it never did."""
    oldest_at: datetime | None
    """When the oldest work order of the workflow was created; None if there is none, or none is in the search index."""


def read_status(connection: Connection, workflow: str) -> RetentionStatus:
    """Return how far retention has come with a workflow; reads one work order."""
    ended_at, oldest = fetch_row(connection, _QUERIES["status"], {"workflow": workflow})
    return RetentionStatus(ended_at, None if oldest is None else time_of(oldest))


def policies(connection: Connection) -> list[Policy]:
    """Return the policies of all workflows whose definition has one."""
    with connection.cursor(row_factory=class_row(Policy)) as cursor:
        return cursor.execute(_QUERIES["policies"]).fetchall()


def is_due(connection: Connection) -> bool:
    """Return whether retention last ended a day ago or longer, and no process runs it."""
    return bool(fetch_row(connection, _QUERIES["is_due"], {"interval": _INTERVAL, "silence": _SILENCE})[0])


def preview(connection: Connection, *, now: datetime | None = None) -> list[RetentionPreview]:
    """Return what retention would do for each workflow with a policy; change nothing.

    Args:
        connection: without an open transaction. Its statements read every work order that may be due.
        now: the time that ages are counted to; the present when omitted.
    """
    with connection.transaction():
        known = policies(connection)
        due = _arguments(known, now or datetime.now(UTC))
        due["marks"] = _marks(connection, due)
        counts: list[dict[int, int]] = [
            dict(connection.execute(_QUERIES[query], due, prepare=False).fetchall())
            for query in ("count_expired", "count_unwiped")
        ]
    deleted, wiped = counts
    return [
        RetentionPreview(policy.workflow, wiped.get(policy.workflow_id, 0), deleted.get(policy.workflow_id, 0))
        for policy in known
    ]


def delete_expired(
    connection: Connection,
    *,
    now: datetime | None = None,
    step: int = STEP,
    pause: Callable[[float], None] = time.sleep,
) -> RetentionResult:
    """Delete and wipe what is due, step by step, and return the numbers.

    Args:
        connection: without an open transaction; each step has its own.
        now: the time that ages are counted to; the database's present when omitted.
        step: work orders of one step.
        pause: waits between two steps; receives the seconds.

    Raises:
        RetentionBusyError: another process runs retention.
        psycopg.Error: the database failed; the steps before are kept.
    """
    with connection.transaction():
        known = policies(connection)
        # The clock by which work orders are created, and by which a replay refuses what may be deleted.
        now = now or fetch_row(connection, _QUERIES["now"], {})[0]
    retention = _Retention(connection, now, _arguments(known, now), step, pause)
    # The rows of a trigger type come first: a batch must be gone before the first of its work orders is.
    for point in entry_points(group=RETENTION_GROUP):
        retention.shorten(point.load())
    deleted = retention.delete()  # before wiping, which what is deleted does not need
    wiped = retention.wipe()
    retention.erase()
    retention.delete_orphans()
    with connection.transaction():
        connection.execute(_QUERIES["note_end"])
    return RetentionResult(wiped, deleted)


class _Retention:
    """The steps of one call of `delete_expired`: they go through work orders by their ids, in bounded statements."""

    def __init__(
        self,
        connection: Connection,
        now: datetime,
        due: Mapping[str, Any],
        step: int,
        pause: Callable[[float], None],
    ) -> None:
        self._connection = connection
        self._due = {**due, "limit": step}
        self._now = now
        self._pause = pause

    def delete(self) -> int:
        """Delete what is due; return how many were deleted."""
        deleted, after = 0, UUID(int=0)
        while True:
            with self._step(erases_words=True):
                until = self._look_ahead(after, "end_id")
                if until is None:
                    return deleted
                rows = self._rows("expired", after=after, until=until)
                self._connection.execute(_QUERIES["delete"], {"ids": [id_ for (id_,) in rows]})
            deleted, after = deleted + len(rows), self._reached(rows, until)

    def wipe(self) -> int:
        """Wipe what is due, from where the last call stopped; return the number of work orders."""
        return self._wipe_passed() + self._wipe_repeated() + self._wipe_on()

    def _wipe_passed(self) -> int:
        """Wipe what could not be wiped when its turn came."""
        wiped, rows = 0, [(UUID(int=0), False)]
        while rows:
            with self._step(erases_words=True):
                rows = self._rows("passed", after=rows[-1][0])
                ids = [id_ for id_, is_due in rows if is_due]
                self._wipe(ids)
                self._connection.execute(_QUERIES["forget_passed"], {"ids": ids})
            wiped += len(ids)
        return wiped

    def _wipe_repeated(self) -> int:
        """Wipe the requests of ignored repeats, which may come after their work orders were wiped."""
        wiped, ids = 0, [UUID(int=0)]
        while ids:
            with self._step(erases_words=True):
                ids = [id_ for (id_,) in self._rows("repeated", after=ids[-1])]
                self._wipe(ids)
            wiped += len(ids)
        return wiped

    def _wipe_on(self) -> int:
        """Wipe what lies behind the marks, and move them."""
        # Without its own transaction, the query would open one that no step ends.
        with self._connection.transaction():
            marks = _marks(self._connection, self._due)
        wiped, after = 0, self._first_mark(marks)
        while after is not None:
            with self._step(erases_words=True):
                until = self._look_ahead(after, "wipe_end_id")
                if until is None:
                    break
                rows = self._rows("unwiped", after=after, until=until, marks=marks)
                until = self._reached(rows, until)
                ids = [id_ for id_, is_free in rows if is_free]
                self._wipe(ids)
                self._connection.execute(_QUERIES["move_marks"], {**self._due, "until": until})
            wiped, after = wiped + len(ids), until
        return wiped

    def _first_mark(self, marks: Sequence[UUID]) -> UUID | None:
        """Return the lowest mark of the workflows that are wiped; None if none is."""
        wanted = [mark for mark, before in zip(marks, self._due["wipe_before"], strict=True) if before > _NEVER]
        return min(wanted, default=None)

    def _look_ahead(self, after: UUID, end: str) -> UUID | None:
        """Return the last work order that a step may read, due or not; None if none is left."""
        rows = self._rows("look_ahead", after=after, end=self._due[end], look=_LOOK * self._due["limit"])
        return rows[0][0] if rows else None

    def _rows(self, query: str, **place: object) -> list[Any]:
        return self._connection.execute(_QUERIES[query], {**self._due, **place}, prepare=False).fetchall()

    def _wipe(self, ids: Sequence[UUID]) -> None:
        self._connection.execute(_QUERIES["wipe"], {"ids": list(ids)})

    def _reached(self, rows: Sequence[tuple[Any, ...]], until: UUID) -> UUID:
        """Return how far a step came: to its last row if it found as many as it may, otherwise to where it looked."""
        last: UUID = rows[-1][0] if len(rows) == self._due["limit"] else until
        return last

    def erase(self) -> None:
        """Erase events' data that belongs to no single work order: the names of sequences, and what jobs looked for."""
        with self._step():
            self._connection.execute(_QUERIES["erase_texts"], self._due)
        after: tuple[int, UUID] | None = (0, UUID(int=0))
        while after is not None:
            with self._step():
                rows = self._rows("erase_names", after_trigger=after[0], after_key=after[1])
            after = rows[-1] if rows else None

    def delete_orphans(self) -> None:
        """Delete the counts of repeats whose work orders were deleted just before."""
        after: UUID | None = UUID(int=0)
        while after is not None:
            with self._step():
                after = duplicates.delete_orphans(self._connection, after=after, limit=_LOOK * self._due["limit"])

    def shorten(self, shorten: Shorten) -> None:
        """Shorten the tables of a trigger type."""
        steps = shorten(self._connection, self._now)
        is_done = False
        while not is_done:
            with self._step():
                is_done = next(steps, _DONE) is _DONE

    @contextmanager
    def _step(self, *, erases_words: bool = False) -> Iterator[None]:
        """Open a step's transaction, and wait after it as long as it took: others have half of the database at least.

        Args:
            erases_words: whether it erases texts whose words the search index has, or is about to write.

        Raises:
            RetentionBusyError: another process runs retention.
        """
        begun = time.monotonic()
        with self._connection.transaction():
            if not fetch_row(self._connection, _QUERIES["begin_step"], {"key": AdvisoryLock.RETENTION})[0]:
                raise RetentionBusyError(
                    "Another process runs retention at this moment; this one stopped, and what is due is left to the "
                    "other."
                )
            if erases_words:
                search_index.lock_words(self._connection)
            yield
        self._pause(min(time.monotonic() - begun, _MAX_PAUSE))


def _arguments(known: Sequence[Policy], now: datetime) -> dict[str, Any]:
    """Return the arguments of all queries: the times before which each workflow's data is due."""
    good, errors = [policy.good_before(now) for policy in known], [policy.errors_before(now) for policy in known]
    wipe = [policy.wipe_before(now) for policy in known]
    return {
        "workflow_ids": [policy.workflow_id for policy in known],
        "workflows": [policy.workflow for policy in known],
        "good_before": good,
        "errors_before": errors,
        "end_id": first_id(max([*good, *errors, _NEVER]) + CLOCKS_APART),
        "wipe_before": wipe,
        "wipe_end_id": first_id(max([*wipe, _NEVER]) + CLOCKS_APART),
        "settled": [first_id(min(before, datetime.now(UTC) - _SETTLED) - CLOCKS_APART) for before in wipe],
        "erase_before": [policy.erase_before(now) for policy in known],
        "erased": _ERASED,
    }


def _marks(connection: Connection, due: Mapping[str, Any]) -> list[UUID]:
    """Return up to where each workflow is wiped."""
    found: dict[int, UUID] = dict(connection.execute(_QUERIES["marks"], due).fetchall())
    return [found.get(id_, UUID(int=0)) for id_ in due["workflow_ids"]]


def _before(now: datetime, days: float | None) -> datetime:
    return _NEVER if days is None else now - timedelta(days=days)
