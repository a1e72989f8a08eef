"""Retention: wipes old inputs, outputs and logs, and deletes old work orders, as each workflow's definition requires.

A trigger type may announce a function that shortens its own tables, which then runs as well.

It runs in small steps. Each is a transaction that locks its own work orders only, followed by a pause of the same
length. New work orders never wait for it, nor it for them.

Later it deletes what transactions of these work orders have stored in the databases of workflows. It notes their ids,
so nothing is deleted that belongs to another installation, or whose work order can run again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import entry_points
from typing import Any, Final
from uuid import UUID

from workorders.core.exceptions import WorkOrdersError
from workorders.core.history import search_index
from workorders.core.history.filters import CLOCKS_APART
from workorders.core.ids import first_id
from workorders.core.postgres.connection import Connection, fetch_row, transaction_time
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.maintenance", "sql/retention.sql")

STEP: Final = 1_000
_MAX_PAUSE: Final = 1.0
_LOOK: Final = 20
"""A step reads this many times more work orders than it may delete or wipe: those that are kept cost little."""
_ERASED: Final = "(erased)"

_INTERVAL: Final = timedelta(days=1)
_SILENCE: Final = timedelta(minutes=10)
"""After this time without a step, a process that ran retention is assumed dead. A step takes seconds."""

_STEPS_WAIT: Final = timedelta(days=1)
"""A lost process that was suspended may wake up later. It must find its rows, or it would write again."""

RETENTION_GROUP: Final = "workorders.retention"
"""Entry points by which a trigger type announces a `Shorten`."""
Shorten = Callable[[Connection, datetime], bool]
"""Deletes some old rows of a trigger type's own tables, before work orders are deleted.

It receives the connection, in a transaction of the caller, and the time that ages are counted to. It is called again
after a pause as long as it returns True, because there may be more."""


class RetentionBusyError(WorkOrdersError):
    """Another process runs retention."""


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """What one run of retention did."""

    wiped: int = 0
    deleted: int = 0


def is_due(connection: Connection) -> bool:
    """Return whether retention last ended a day ago or longer, and no process runs it."""
    return bool(fetch_row(connection, _QUERIES["is_due"], {"interval": _INTERVAL, "silence": _SILENCE})[0])


def delete_expired(
    connection: Connection,
    *,
    now: datetime | None = None,
    step: int = STEP,
    pause: Callable[[float], None] = time.sleep,
) -> RetentionResult:
    """Delete and wipe what is due, step by step, each in its own transaction, and return the numbers.

    Ages are counted to `now`, the database's present if omitted; `pause` waits between two steps.

    Raises:
        RetentionBusyError: another process runs retention.
        psycopg.Error: the database failed; the steps before are kept.
    """
    with connection.transaction():
        # The clock by which work orders are created, and by which a replay refuses what may be deleted.
        now = now or transaction_time(connection)
        delete_before, wipe_before = fetch_row(connection, _QUERIES["bounds"], {"now": now})
    ends = {"end_id": first_id(delete_before + CLOCKS_APART), "wipe_end_id": first_id(wipe_before + CLOCKS_APART)}
    retention = _Retention(connection, {"now": now, "erased": _ERASED, "limit": step, **ends}, pause)
    # The rows of a trigger type come first: a batch must be gone before the first of its work orders is.
    for point in entry_points(group=RETENTION_GROUP):
        retention.shorten(point.load())
    deleted = retention.sweep("expired", "delete", "end_id")  # before wiping, which what is deleted does not need
    wiped = retention.sweep("unwiped", "wipe", "wipe_end_id")
    retention.erase()
    with connection.transaction():
        connection.execute(_QUERIES["note_end"])
    return RetentionResult(wiped, deleted)


class _Retention:
    """The steps of one call of `delete_expired`: they go through work orders by their ids, in bounded statements."""

    def __init__(self, connection: Connection, due: Mapping[str, Any], pause: Callable[[float], None]) -> None:
        self._connection = connection
        self._due = due
        self._pause = pause

    def sweep(self, find: str, apply: str, end: str) -> int:
        """Go through all work orders by their ids, apply a query to those that another one finds, and count them."""
        done, after = 0, UUID(int=0)
        while True:
            with self._step():
                ahead = self._ids("look_ahead", after=after, end=self._due[end], look=_LOOK * self._due["limit"])
                if not ahead:
                    return done
                ids = self._ids(find, after=after, until=ahead[0])
                self._connection.execute(_QUERIES[apply], {"ids": ids})
            # To the last one if it found as many as it may, otherwise to where it looked.
            done, after = done + len(ids), ids[-1] if len(ids) == self._due["limit"] else ahead[0]

    def _ids(self, query: str, **place: object) -> list[UUID]:
        return [id_ for (id_,) in self._rows(query, **place)]

    def _rows(self, query: str, **place: object) -> list[Any]:
        return self._connection.execute(_QUERIES[query], {**self._due, **place}).fetchall()

    def erase(self) -> None:
        """Erase events' data that belongs to no single work order: the names of sequences, and what jobs looked for."""
        with self._step():
            self._connection.execute(_QUERIES["erase_texts"], self._due)
        after: tuple[int, UUID] | None = (0, UUID(int=0))
        while after is not None:
            with self._step():
                rows = self._rows("erase_names", after_trigger=after[0], after_key=after[1])
            after = rows[-1] if rows else None

    def shorten(self, shorten: Shorten) -> None:
        """Shorten the tables of a trigger type."""
        is_done = False
        while not is_done:
            with self._step():
                is_done = not shorten(self._connection, self._due["now"])

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Open a step's transaction, and wait after it as long as it took: others have half of the database."""
        begun = time.monotonic()
        with self._connection.transaction():
            if not fetch_row(self._connection, _QUERIES["begin_step"], {"key": AdvisoryLock.RETENTION})[0]:
                raise RetentionBusyError(
                    "Another process runs retention at this moment; this one stopped, and what is due is left to the "
                    "other."
                )
            # It may erase texts whose words the search index is about to write.
            search_index.lock_words(self._connection)
            yield
        self._pause(min(time.monotonic() - begun, _MAX_PAUSE))


def list_step_databases(connection: Connection) -> list[str]:
    """Return the Airflow connections to the databases from which rows are to be deleted now."""
    return [name for (name,) in connection.execute(_QUERIES["step_databases"], {"wait": _STEPS_WAIT})]


def delete_steps(work_orders: Connection, connection_id: str, database: Connection, *, step: int = 1_000) -> int:
    """Delete the rows that are due in the database of an Airflow connection, and return their number.

    Both connections are without an open transaction, because each step has its own.
    """
    deleted = 0
    while True:
        # No transaction is open while the other database is asked, which may hang. What fails between two of these
        # steps is repeated by the next call.
        with work_orders.transaction():
            due = {"connection": connection_id, "wait": _STEPS_WAIT, "limit": step}
            ids = [id_ for (id_,) in work_orders.execute(_QUERIES["due_steps"], due)]
        if not ids:
            return deleted
        with database.transaction():
            deleted += database.execute(_QUERIES["delete_steps"], {"ids": ids}).rowcount
        with work_orders.transaction():
            work_orders.execute(_QUERIES["forget_steps"], {"connection": connection_id, "ids": ids})
