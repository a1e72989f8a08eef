"""That an attempt is at work is known for as long as it lives, and no longer."""

import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from workorders.core.postgres.connection import Connection
from workorders.kafka.ledger.attempt_lock import attempt_lock, try_exclude_attempts
from workorders.kafka.spark import driver

pytestmark = pytest.mark.integration

BATCH = 999_999_001


def none_at_work(connection: Connection, batch_id: int = BATCH) -> bool:
    answer = try_exclude_attempts(connection, batch_id)
    connection.rollback()
    return answer


def test_an_attempt_is_at_work_until_its_end_and_on_its_batch_alone(stack: LocalStack, connection: Connection) -> None:
    assert none_at_work(connection)
    with attempt_lock(stack.database_url, BATCH):
        assert not none_at_work(connection)
        assert none_at_work(connection, BATCH + 1)
    assert none_at_work(connection)


def test_an_attempt_whose_connection_is_cut_continues_unnoticed_and_ends_well(
    stack: LocalStack, connection: Connection
) -> None:
    with attempt_lock(stack.database_url, BATCH):
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            (f"workorders attempt at batch {BATCH}",),
        )
        eventually(lambda: none_at_work(connection), seconds=10, what="the release of the lock")


def test_an_attempt_may_idle_as_long_as_spark_reads_and_holds_no_vacuum_up(
    stack: LocalStack, connection: Connection
) -> None:
    with attempt_lock(stack.database_url, BATCH) as held:
        assert held.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)
        horizon = connection.execute(
            "SELECT backend_xmin, backend_xid FROM pg_stat_activity WHERE application_name = %s",
            (f"workorders attempt at batch {BATCH}",),
        ).fetchone()
        assert horizon == (None, None)


def test_the_spark_driver_holds_the_lock_of_its_attempt(
    stack: LocalStack, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in stack.environment().items():
        monkeypatch.setenv(variable, value)
    seen: list[bool] = []

    def ingest_batch(*_: object, **__: object) -> tuple[list[object], tuple[str, ...]]:
        seen.append(none_at_work(connection))
        return [], ()

    monkeypatch.setattr(driver, "ingest_batch", ingest_batch)
    assert driver.main(["--batch", str(BATCH)]) == 0
    assert seen == [False]
