"""A writer that falls silent during a COPY keeps no partition, whether its machine is gone or its process is stopped.

And two copies of one attempt, as Spark makes them: neither fails the other.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Final
from urllib.parse import quote

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.ingesting import attempt, attempts, no_proof, partition_of, plan, row, same_log
from support.work_orders import accepted_range, positions, remove
from workorders.core.creation.work_orders import Created
from workorders.core.items import Item
from workorders.core.postgres import connection as connections
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import LedgerConflictError
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


_ATTACH_FILTER: Final = 26
"""SO_ATTACH_FILTER, and below SO_DETACH_FILTER, which the module socket does not name."""
_DETACH_FILTER: Final = 27
_RETURN: Final = 0x06


def vanish(connection: Connection) -> None:
    """Let the kernel drop every packet that comes to this connection, unacknowledged, as a dead machine does.

    A proxy cannot do that, and neither can a stopped process: a kernel answers for both.
    """
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(drop_all))
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


def come_back(connection: Connection) -> None:
    """Let the machine be there again, for a client that knows nothing of what was meanwhile."""
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)


SECONDS = 60
# More than a chunk of COPY, so that some of it has gone when the writer falls silent.
RANGE_END = 20_000
WAITS_IN_COPY = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = %s AND state = 'active' AND wait_event = 'ClientRead' AND query ILIKE 'COPY%%'
"""


@dataclass
class Writer:
    """An executor on a separate connection, whose source stops during the messages until it is released."""

    stack: LocalStack
    made: Attempt
    name: str
    limits: str = ""
    connection: Connection | None = None
    halted: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)

    def run(self) -> Created:
        """Ingest, as an executor does."""
        url = f"{self.stack.database_url}?options={quote(self.limits)}"
        with connect(url, application_name=self.name) as self.connection:
            return ingest(self.connection, self.made, self.items(), no_proof, same_log)

    def items(self) -> Iterator[Item]:
        """Yield the messages, with a halt before the last."""
        whole = list(accepted_range(stream_name(self.made.range.partition), 0, RANGE_END))
        yield from whole[:-1]
        self.halted.set()
        assert self.released.wait(5 * SECONDS)
        yield whole[-1]


@contextmanager
def at_work(*writers: Writer) -> Iterator[list["Future[Created]"]]:
    """Let writers work at the same time; at the end none is left without the rest of its messages."""
    with ThreadPoolExecutor(len(writers)) as threads:
        try:
            yield [threads.submit(writer.run) for writer in writers]
        finally:
            for writer in writers:
                writer.released.set()


@pytest.fixture
def planned(name: str) -> OffsetRange:
    return OffsetRange(partition_of(name), 0, RANGE_END)


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, planned: OffsetRange) -> int:
    return plan(connection, trigger, planned)


@pytest.fixture
def first(connection: Connection, batch_id: int) -> Attempt:
    return attempt(connection, batch_id)


def until_in_copy(connection: Connection, name: str) -> None:
    """Wait until a session has sent part of a COPY and Postgres waits for the rest."""

    def waits() -> bool:
        found = connection.execute(WAITS_IN_COPY, (name,)).fetchone()
        connection.rollback()
        return found == (1,)

    eventually(waits, seconds=SECONDS, what="a COPY that waits for its client")


def free_within(stack: LocalStack, trigger: Trigger, seconds: float) -> bool:
    """Whether the trigger's ledger row can be locked within this time."""
    with connect(f"{stack.database_url}?options=-c%20lock_timeout%3D{seconds:.0f}s") as own:
        try:
            own.execute("SELECT FROM workorders.kafka_ledger WHERE trigger_id = %s FOR UPDATE", (trigger.id,))
        except psycopg.errors.LockNotAvailable:
            return False
        return True


def takes_epoch(stack: LocalStack, old: Attempt, limits: str) -> bool:
    """Whether a new attempt at the batch begins at the first try."""
    with connect(f"{stack.database_url}?options={quote(limits)}", autocommit=True) as own:
        try:
            return ledger.take_epoch(own, old.batch_id) > old.epoch
        except psycopg.errors.LockNotAvailable:
            return False


def test_a_machine_that_vanishes_during_a_copy_frees_its_partition(
    stack: LocalStack,
    connection: Connection,
    trigger: Trigger,
    first: Attempt,
    *,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    # At a tenth of the time, so that the test takes seconds: the keepalives find out after 6 s and not after 60.
    scaled = {
        setting: str(int(value) // 10)
        for setting, value in connections.SESSION_SETTINGS.items()
        if setting in {"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_user_timeout"}
    }
    monkeypatch.setattr(connections, "SESSION_SETTINGS", {**connections.SESSION_SETTINGS, **scaled})
    writer = Writer(stack, first, name)
    with at_work(writer) as (lost,):
        until_in_copy(connection, name)
        assert writer.connection is not None
        vanish(writer.connection)
        assert free_within(stack, trigger, 30)
        assert not lost.done()
        second = Writer(stack, attempt(connection, first.batch_id), "another")
        second.released.set()
        assert second.run() == Created(RANGE_END)
        come_back(writer.connection)
        writer.released.set()
        with pytest.raises(psycopg.OperationalError):
            lost.result(SECONDS)
    assert positions(connection, trigger, stream_name(first.range.partition)) == list(range(RANGE_END))


def test_no_limit_of_a_session_ends_a_copy_whose_client_is_there_and_sends_nothing(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, name: str
) -> None:
    """Why the next attempt has to: if this fails, Postgres ends such a session by itself now."""
    limits = "-c statement_timeout=5s -c transaction_timeout=5s -c idle_in_transaction_session_timeout=5s"
    writer = Writer(stack, first, name, limits)
    with at_work(writer) as (stopped,):
        until_in_copy(connection, name)
        assert not free_within(stack, trigger, 8)
        writer.released.set()
        with pytest.raises(psycopg.Error):
            stopped.result(SECONDS)


def test_the_next_attempt_ends_one_that_has_stopped_during_a_copy_once_a_statements_time_is_over(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, name: str
) -> None:
    writer = Writer(stack, first, name)
    with at_work(writer) as (stopped,):
        until_in_copy(connection, name)
        assert not takes_epoch(stack, first, "-c lock_timeout=100ms")
        # For those who give a statement two seconds, its time is soon over.
        limits = "-c lock_timeout=100ms -c statement_timeout=2s"
        eventually(lambda: takes_epoch(stack, first, limits), seconds=SECONDS, what="an epoch")
        second = Writer(stack, attempt(connection, first.batch_id), "another")
        second.released.set()
        assert second.run() == Created(RANGE_END)
        writer.released.set()
        with pytest.raises(psycopg.OperationalError):
            stopped.result(SECONDS)
    assert positions(connection, trigger, stream_name(first.range.partition)) == list(range(RANGE_END))


def test_the_next_attempt_ends_a_virtual_partition_that_has_stopped_during_a_copy(
    stack: LocalStack, connection: Connection, trigger: Trigger, name: str
) -> None:
    whole = OffsetRange(partition_of(name), 0, RANGE_END + 10)
    batch_id = plan(connection, trigger, whole, cut_at=(RANGE_END,))
    first, _ = attempts(connection, batch_id)
    writer = Writer(stack, first, name)
    with at_work(writer) as (stopped,):
        until_in_copy(connection, name)
        assert not takes_epoch(stack, first, "-c lock_timeout=100ms")
        limits = "-c lock_timeout=100ms -c statement_timeout=2s"
        eventually(lambda: takes_epoch(stack, first, limits), seconds=SECONDS, what="an epoch")
        second = Writer(stack, attempts(connection, batch_id)[0], "another")
        second.released.set()
        assert second.run() == Created(RANGE_END)
        writer.released.set()
        with pytest.raises(psycopg.OperationalError):
            stopped.result(SECONDS)
    assert positions(connection, trigger, stream_name(whole.partition)) == list(range(RANGE_END))


def test_a_copy_that_holds_no_ledger_row_is_left_alone(stack: LocalStack) -> None:
    """For example a person who restores a table."""
    limits = quote("-c statement_timeout=500ms")
    with (
        connect(stack.database_url) as person,
        connect(f"{stack.database_url}?options={limits}", autocommit=True) as own,
    ):
        person.execute("CREATE TEMPORARY TABLE copied (number integer)")
        with person.cursor().copy("COPY copied FROM STDIN") as copy:
            copy.write(b"1\n")
            with pytest.raises(psycopg.errors.QueryCanceled):
                own.execute("SELECT pg_sleep(60)")
            ledger.end_silent_writers(own)
            copy.write(b"2\n")
        assert person.execute("SELECT count(*) FROM copied").fetchone() == (2,)


@pytest.mark.parametrize("replayed", [False, True], ids=["fresh", "replayed"])
def test_a_copy_of_an_attempt_waits_for_the_other_however_long_and_fails_neither(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, *, name: str, replayed: bool
) -> None:
    if replayed:
        before = Writer(stack, first, "before")
        before.released.set()
        assert before.run() == Created(RANGE_END)
        remove(connection, trigger, range(RANGE_END))
        connection.commit()
        first = attempt(connection, first.batch_id)
    original, copy = Writer(stack, first, name), Writer(stack, first, "copy", "-c lock_timeout=50ms")
    copy.released.set()
    with at_work(original) as (worked,):
        assert original.halted.wait(SECONDS)
        with at_work(copy) as (waited,):
            for _ in range(3):
                until_asked_again(connection)
            assert not waited.done()
            original.released.set()
            assert worked.result(SECONDS) == Created(RANGE_END)
            if replayed:
                assert waited.result(SECONDS) == Created(existing=RANGE_END)
            else:
                with pytest.raises(LedgerConflictError):
                    waited.result(SECONDS)
    assert positions(connection, trigger, stream_name(first.range.partition)) == list(range(RANGE_END))


def until_asked_again(connection: Connection) -> None:
    """Wait until the copy has waited out one `lock_timeout` and asks for the lock again."""
    asks = "SELECT query_start FROM pg_stat_activity WHERE application_name = 'copy' AND wait_event_type = 'Lock'"
    connection.rollback()
    seen: set[object] = set()

    def again() -> bool:
        seen.update(row[0] for row in connection.execute(asks).fetchall())
        connection.rollback()
        return len(seen) > 1

    eventually(again, seconds=SECONDS, what="another try for the lock", every=0.01)


def test_a_copy_takes_over_when_the_other_one_is_ended(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, name: str
) -> None:
    original, copy = Writer(stack, first, name), Writer(stack, first, "copy", "-c lock_timeout=50ms")
    copy.released.set()
    with at_work(original) as (ended,):
        assert original.halted.wait(SECONDS)
        with at_work(copy) as (taking_over,):
            until_asked_again(connection)
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (name,)
            )
            assert taking_over.result(SECONDS) == Created(RANGE_END)
        original.released.set()
        with pytest.raises(psycopg.OperationalError):
            ended.result(SECONDS)
    assert row(connection, trigger).next_offset == RANGE_END


def test_a_writer_of_an_older_epoch_is_waited_for_no_longer_than_a_lock(
    stack: LocalStack, connection: Connection, first: Attempt, name: str
) -> None:
    """Only copies of one attempt wait for each other: what else holds the row is reported, and tried again later."""
    writer = Writer(stack, first, name)
    with at_work(writer):
        until_in_copy(connection, name)
        newer = Attempt(first.batch_id, first.trigger, first.range, first.epoch + 1, 0)
        other = Writer(stack, newer, "other", "-c lock_timeout=50ms")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.run()
