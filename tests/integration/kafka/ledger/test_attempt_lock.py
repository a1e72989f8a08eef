"""That an attempt is at work is known for as long as it lives, and no longer."""

import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.ingesting import partition_of, plan
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.ingest.ingest_attempt import IngestAttempt
from workorders.kafka.ingest.preflight import PreflightResult
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.attempt_lock import attempt_lock, try_exclude_attempts
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.spark import driver

pytestmark = pytest.mark.integration


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, name: str) -> int:
    return plan(connection, trigger, OffsetRange(partition_of(name), 0, 5))


def none_at_work(connection: Connection, batch_id: int) -> bool:
    free = try_exclude_attempts(connection, [batch_id])
    connection.rollback()
    return free == {batch_id}


def test_an_attempt_is_at_work_until_its_end_and_on_its_batch_alone(
    stack: LocalStack, connection: Connection, batch_id: int
) -> None:
    assert none_at_work(connection, batch_id)
    with attempt_lock(stack.database_url, batch_id):
        assert try_exclude_attempts(connection, [batch_id, batch_id + 1]) == {batch_id + 1}
        connection.rollback()
    assert none_at_work(connection, batch_id)


def test_an_attempt_whose_connection_is_cut_continues_unnoticed_and_ends_well(
    stack: LocalStack, connection: Connection, batch_id: int
) -> None:
    with attempt_lock(stack.database_url, batch_id):
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (f"workorders attempt at batch {batch_id}",),
        )
        eventually(lambda: none_at_work(connection, batch_id), seconds=10, what="the release of the lock")


def test_an_attempt_may_idle_as_long_as_spark_reads_and_holds_no_vacuum_up(
    stack: LocalStack, connection: Connection, batch_id: int
) -> None:
    def horizon() -> tuple[object, ...] | None:
        connection.rollback()
        return connection.execute(
            "SELECT backend_xmin, backend_xid FROM pg_stat_activity WHERE application_name = %s",
            (f"workorders attempt at batch {batch_id}",),
        ).fetchone()

    with attempt_lock(stack.database_url, batch_id) as held:
        assert horizon() == (None, None)
        assert held.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)


def test_the_spark_driver_holds_the_lock_of_its_attempt(
    stack: LocalStack, connection: Connection, batch_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in stack.environment().items():
        monkeypatch.setenv(variable, value)
    seen: list[bool] = []
    batch = batches.load(connection, batch_id)
    connection.commit()

    def ingest(*_: object) -> list[str]:
        seen.append(none_at_work(connection, batch_id))
        return []

    def resume(attempt: IngestAttempt, _: int | None) -> None:
        attempt.batch, attempt.prepared = batch, PreflightResult((), {})

    monkeypatch.setattr(driver, "ingest", ingest)
    monkeypatch.setattr(IngestAttempt, "resume", resume)
    assert driver.main(["--batch", str(batch_id)]) == 0
    assert seen == [False]
