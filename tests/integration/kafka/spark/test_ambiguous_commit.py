"""A connection that breaks while COMMIT is under way: the transaction is committed, and its writer hears of a failure.

A standby that does not exist keeps the answer back: the commit is done on this server and waits for the other one. That
is where the connection is broken.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from local_stack.postgres import SUPERUSER
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.ingesting import attempt, partition_of, plan, row
from support.record_batches import record_batch
from support.work_orders import positions
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.ingest.ingest_attempt import ingest_attempt
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange, Record
from workorders.kafka.spark import partition_ingest
from workorders.kafka.spark.driver import _settled
from workorders.kafka.spark.partition_ingest import PartitionIngest

pytestmark = pytest.mark.integration

WAITS_FOR_THE_STANDBY = """
    SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'workorders batch %'
"""


@pytest.fixture
def answers_kept_back(stack: LocalStack) -> Iterator[Connection]:
    """Let every commit wait for a standby that does not exist; gives a connection whose own commits do not."""
    with connect(stack.postgres.url(SUPERUSER), autocommit=True, application_name="test") as control:
        control.execute("SET synchronous_commit = local")
        control.execute("ALTER SYSTEM SET synchronous_standby_names = 'no_standby'")
        control.execute("SELECT pg_reload_conf()")
        try:
            assert wait_until(lambda: standbys(stack) == "no_standby", seconds=30)
            yield control
        finally:
            let_answers_go(stack)


def let_answers_go(stack: LocalStack) -> None:
    """Let commits wait for no standby, by a new connection: no later test could commit if this one's were lost."""
    with connect(stack.postgres.url(SUPERUSER), autocommit=True) as control:
        control.execute("SET synchronous_commit = local")
        control.execute("ALTER SYSTEM RESET synchronous_standby_names")
        control.execute("SELECT pg_reload_conf()")
    assert wait_until(lambda: standbys(stack) == "", seconds=30)


def standbys(stack: LocalStack) -> str:
    """Return the standbys that a new session's commits wait for."""
    with connect(stack.database_url, autocommit=True) as session:
        (names,) = session.execute("SHOW synchronous_standby_names").fetchone() or ("",)
        return str(names)


def test_a_commit_whose_answer_is_lost_counts_and_stalls_nothing(
    stack: LocalStack,
    connection: Connection,
    trigger: Trigger,
    name: str,
    *,
    answers_kept_back: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # There is no topic: the messages are made here.
    monkeypatch.setattr(partition_ingest, "verify_topic_unchanged", lambda *_: None)
    connection.execute("SET synchronous_commit = local")
    connection.commit()
    range_ = OffsetRange(partition_of(name), 100, 110)
    stream = stream_name(range_.partition)
    batch_id = plan(connection, trigger, range_)
    made = attempt(connection, batch_id)
    before = batches.load(connection, batch_id)
    connection.commit()
    task = PartitionIngest(stack.database_url, {}, RecordMapping(), [made])
    with ThreadPoolExecutor(1) as pool:
        messages = record_batch(Record(name, 0, offset, None, b"{}", 1, 0) for offset in range(100, 110))
        writer = pool.submit(task.ingest, made, [messages])
        assert wait_until(lambda: answers_kept_back.execute(WAITS_FOR_THE_STANDBY).fetchone() is not None, seconds=30)
        (pid,) = answers_kept_back.execute(WAITS_FOR_THE_STANDBY).fetchone() or (0,)
        answers_kept_back.execute("SELECT pg_terminate_backend(%s)", (pid,))
        outcome = writer.result(60)
    assert outcome.error is not None

    let_answers_go(stack)  # a stall that is wrongly recorded shall fail this test and not wait for a standby
    with ingest_attempt(JobSecrets(stack.database_url, {}), batch_id, application_name="test") as tried:
        tried.batch, tried.epoch = before, made.epoch
        (settled,) = _settled(tried, made.epoch, [outcome])
    assert settled == RangeOutcome(range_, Created(10, 0), outcome.seconds)
    entry = row(connection, trigger)
    assert (entry.next_offset, entry.status, entry.last_error) == (110, "active", None)
    assert positions(connection, trigger, stream) == list(range(100, 110))
