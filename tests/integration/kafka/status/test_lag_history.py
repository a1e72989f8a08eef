from datetime import UTC, datetime, timedelta

import pytest

from support.ingesting import partition_of, plan
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.ledger import lag_samples
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.status.lag_history import LagHistory, list_lags
from workorders.kafka.status.throughput import INTERVALS

pytestmark = pytest.mark.integration


@pytest.fixture
def planned(connection: Connection, trigger: Trigger) -> Trigger:
    """Return a trigger whose ledger is at offset 100 of its one partition."""
    plan(connection, trigger, OffsetRange(partition_of(trigger.name), 100, 110))
    return trigger


def look(connection: Connection, trigger: Trigger, last_stable: int, minutes_ago: int) -> None:
    """Let the listener look, some time ago."""
    connection.execute(*lag_samples.record_statement(trigger.name, {partition_of(trigger.name): last_stable}))
    connection.execute(
        "UPDATE workorders.kafka_lag_samples SET minute = minute - %s WHERE trigger_id = %s AND observed_at = now()",
        (timedelta(minutes=minutes_ago), trigger.id),
    )
    connection.commit()


def history(connection: Connection, trigger: Trigger) -> LagHistory:
    return list_lags(connection, datetime.now(UTC))[trigger.name]


def test_the_lag_of_each_interval_is_that_of_its_last_look_and_a_gap_where_none_was(
    connection: Connection, planned: Trigger
) -> None:
    for last_stable, minutes_ago in ((105, 28), (120, 25), (160, 0)):
        look(connection, planned, last_stable, minutes_ago)
    found = history(connection, planned)
    assert list(found.lags) == [*[None] * (INTERVALS - 3), 20, None, 60]
    assert found.arrived_per_minute == 2.0


def test_the_rate_of_arrival_is_unknown_after_a_single_look(connection: Connection, planned: Trigger) -> None:
    look(connection, planned, 160, 0)
    assert history(connection, planned).arrived_per_minute is None
