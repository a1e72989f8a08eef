"""The user's database in a process of runs: transactions whose writes happen once, however often they are attempted."""

import os
import random
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import conninfo
from psycopg.generators import execute
from psycopg.pq import Escaping, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import KEEPALIVES, NO_PREPARED_STATEMENTS, Connection, delay_seconds, is_outage
from workorders.core.postgres.credentials import with_files
from workorders.core.postgres.named_queries import load_queries
from workorders.core.worker.exceptions import StepError, StepOutcomeUnknownError, StepsTableMissingError
from workorders.core.worker.steps import StepKey

_QUERIES = load_queries("workorders.core.worker", "sql/user_database.sql")
CREATE_TABLE: Final = _QUERIES["create_table"]

_PARAMETERS: Final = {
    **{"work_order_id": "$1", "generation": "$2", "name": "$3", "run_id": "$4", "result": "$4"},
    **{"statement_timeout": "$5", "lock_timeout": "$6", "idle_timeout": "$7"},
}
_VERSION: Final = {"version": sha256(_QUERIES["prepare"].encode()).hexdigest()[:16]}
"""In the names of prepared statements: behind a pooler, a session may have those of another release."""
_NOT_PREPARED: Final = frozenset({"26000", "42P05"})
"""A statement is gone, or one with its name is there: a pooler, or a function that has deallocated all."""
_INSERTED: Final = b"INSERT 0 1"
_NO_ROW: Final = "no row of this transaction"
"""In the error of `finish` if there is none, so that nothing is committed."""
_OPEN: Final = frozenset({TransactionStatus.INTRANS, TransactionStatus.INERROR})
"""There is a transaction, which may have failed."""
_MAX_CONFLICTS: Final = 10
"""How often a transaction is repeated that Postgres rolled back because of another one."""
_MAX_CONFLICT_SECONDS: Final = 1.0
_MAX_OUTAGES: Final = 5
"""How often the database is asked after a lost answer to a COMMIT: for about half a minute."""
_CONFLICTS: Final = frozenset({"40001", "40P01"})
_BEFORE_COMMIT: Final = (psycopg.errors.IdleInTransactionSessionTimeout, psycopg.errors.LockNotAvailable)
"""Errors that end a transaction before its COMMIT: the session was idle, or a deferred constraint waited too long."""


class Committed(NamedTuple):
    """A step that is committed."""

    result: bytes
    finished_at: float
    """In seconds since 1970."""
    made_by: UUID


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose transactions begin and end with queries that are needed anyway, and not by its user."""

    is_prepared = False

    def run(self, query: LiteralString, arguments: Mapping[str, str | int]) -> list[PGresult]:
        """Execute the statements of a query with arguments as literals, and return their results.

        A cursor would send a BEGIN before it, and take longer for arguments and results than Postgres for the rest.
        """
        encoding = self.info.encoding
        literal = Escaping(self.pgconn).escape_literal
        values = {name: literal(str(value).encode(encoding)) for name, value in arguments.items()}
        literals = {name: bytes(value).decode(encoding) for name, value in values.items()}
        return self._run(query % {**literals, **_VERSION})

    def prepare(self) -> None:
        """Prepare the statements of a transaction, once."""
        if not self.is_prepared:
            self._run(_QUERIES["prepare"] % {**_PARAMETERS, **_VERSION})
            self.is_prepared = True

    def _run(self, text: str) -> list[PGresult]:
        with self.lock:
            self.pgconn.send_query(text.encode(self.info.encoding))
            results: list[PGresult] = self.wait(execute(self.pgconn))
        if results[-1].status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(results[-1], self.info.encoding)
        return results

    def undo(self) -> None:
        """Roll back the open transaction."""
        super().rollback()

    def commit(self) -> None:
        """Refuse it, as `rollback` does."""
        raise psycopg.ProgrammingError("A transaction ends with its function, by success or error; nothing was done.")

    rollback = commit


class UserDatabase:
    """One connection, which is opened when it is needed and kept between runs."""

    def __init__(self, text: str, settings: Mapping[str, Any]) -> None:
        given = conninfo.conninfo_to_dict(text)
        defaults = {**KEEPALIVES, "application_name": "workorders run"}
        self._text = conninfo.make_conninfo(**{**defaults, **given})
        self._name: str = settings["connection"]
        self._limits = {
            name: str(int(settings[name] * 1000)) for name in ("statement_timeout", "lock_timeout", "idle_timeout")
        }
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        #: Whether statements are prepared: until one was not there.
        self._prepares = True
        self._is_called = False
        self._is_committing = False
        #: Whether a COMMIT had no answer.
        self._is_unknown = False

    def transact(self, run_id: str, key: StepKey, call: Callable[[Connection], bytes]) -> Committed:
        """Call a function in a transaction that commits its writes with its result; or return a committed result.

        The row with the step's key is inserted first. So another transaction with the same key is waited for, and after
        its commit the function is not called. A repetition begins with the insertion, too, whatever was the reason.
        """
        if os.getpid() != self._pid:
            raise StepError("A forked copy of a run's process called context.transaction, so nothing was begun.")
        with self._lock:
            return self._repeat(run_id, key, call)

    def close(self) -> None:
        """Close the connection; the next transaction opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _repeat(self, run_id: str, key: StepKey, call: Callable[[Connection], bytes]) -> Committed:
        """Return what is committed, by this transaction, a repetition of it, or another one."""
        self._is_unknown, conflicts, outages = False, 0, 0
        while True:
            was_kept = self._is_connected
            self._is_called = self._is_committing = False
            try:
                return self._attempt(run_id, key, call)
            except psycopg.Error as error:
                if error.sqlstate in _CONFLICTS:
                    conflicts += 1
                    _wait_after_conflict(conflicts, error)
                    continue
                # Not an error of the function's own statements.
                is_ours = self._is_committing or not self._is_called
                if error.sqlstate in _NOT_PREPARED and is_ours and self._prepares:
                    self._prepares = False
                    continue
                self._is_committing &= not isinstance(error, _BEFORE_COMMIT)
                is_broken = is_outage(error) or not self._is_connected
                if is_broken:
                    self.close()
                if is_broken and (self._is_committing or self._is_unknown):
                    self._is_unknown = True
                    outages += 1
                    _wait_after_outage(outages, key, error)
                # The server may have closed a connection that was kept.
                elif not is_broken or not was_kept or self._is_called:
                    raise
            finally:
                self._clear()

    def _attempt(self, run_id: str, key: StepKey, call: Callable[[Connection], bytes]) -> Committed:
        connection = self.connected()
        if not self._insert(connection, run_id, key):
            return _stored(key, connection.execute(_QUERIES["read"], key._asdict()).fetchone())
        # So no COMMIT of before has succeeded.
        self._is_unknown, self._is_called = False, True
        try:
            result = call(connection)
        except psycopg.Rollback as error:
            raise StepError(
                f"The function of context.transaction({key.name!r}) has raised psycopg.Rollback, so it has no result, "
                "and nothing was committed; return, or raise another error."
            ) from error
        self._is_committing = True
        return Committed(result, self._finish(connection, key, result), UUID(run_id))

    @property
    def _is_connected(self) -> bool:
        """Whether a connection is kept, which may be broken."""
        return self._connection is not None and not self._connection.closed

    def connected(self) -> _Connection:
        """Return the connection, without what its last user has set in it; open one if there is none."""
        if self._connection is None or self._connection.closed:
            self._connection = _Connection.connect(with_files(self._text), prepare_threshold=NO_PREPARED_STATEMENTS)
        self._connection.row_factory = tuple_row
        self._connection.cursor_factory = psycopg.Cursor
        return self._connection

    def _clear(self) -> None:
        """Roll back what is open, and close a connection that no other transaction can use."""
        connection = self._connection
        if connection and connection.info.transaction_status in _OPEN:
            with suppress(psycopg.Error):
                connection.undo()
        if connection and connection.info.transaction_status != TransactionStatus.IDLE:
            self.close()

    def _insert(self, connection: _Connection, run_id: str, key: StepKey) -> bool:
        """Begin a transaction with the row of a step, and return whether there was none; wait for another's."""
        try:
            if self._prepares:
                connection.prepare()
            query = _QUERIES["begin_prepared" if self._prepares else "begin"]
            results = connection.run(query, {**key._asdict(), "run_id": run_id, **self._limits})
        except psycopg.errors.UndefinedTable as error:
            raise StepsTableMissingError(
                f"The database of the Airflow connection {self._name} has no table workorders_steps, so "
                f"{key.name!r} was not begun; run `workorders steps create-table --connection {self._name}`."
            ) from error
        return any(result.command_status == _INSERTED for result in results)

    def _finish(self, connection: _Connection, key: StepKey, result: bytes) -> float:
        try:
            query = _QUERIES["finish_prepared" if self._prepares else "finish"]
            results = connection.run(query, {**key._asdict(), "result": result.decode()})
        except (psycopg.errors.InvalidTextRepresentation, psycopg.errors.InvalidSqlStatementName) as error:
            is_open = connection.info.transaction_status in _OPEN
            if _NO_ROW not in str(error) and (error.sqlstate not in _NOT_PREPARED or is_open):
                raise
            raise StepError(
                f"The function of context.transaction({key.name!r}) has ended the transaction by a COMMIT or ROLLBACK, "
                "so its result was not stored, and it is not called again; leave both to the context, and see in your "
                "tables what it has committed."
            ) from error
        (finished_at,) = (found.get_value(0, 0) for found in results if found.ntuples)
        return float(bytes(finished_at or b"0"))


def _stored(key: StepKey, row: tuple[Any, ...] | None) -> Committed:
    if row is None or row[0] is None:
        raise StepError(
            f"The row of context.transaction({key.name!r}) in workorders_steps has no result or was deleted, so its "
            "function was not called; see in your tables what an earlier attempt has committed."
        )
    result, finished_at, made_by = row
    return Committed(result.encode(), finished_at, made_by)


def _wait_after_conflict(conflicts: int, error: psycopg.Error) -> None:
    if conflicts > _MAX_CONFLICTS:
        raise error
    longest = min(0.01 * 2**conflicts, _MAX_CONFLICT_SECONDS)
    time.sleep(random.uniform(0, longest))  # noqa: S311 - no secret


def _wait_after_outage(outages: int, key: StepKey, error: psycopg.Error) -> None:
    if outages > _MAX_OUTAGES:
        raise StepOutcomeUnknownError(
            f"The answer to the COMMIT of context.transaction({key.name!r}) was lost, and the database does not answer "
            f"({one_line(error)}); whether it was committed is not known. A retry or rerun finds out: it calls the "
            "function only if it was not."
        ) from error
    time.sleep(delay_seconds(outages))
