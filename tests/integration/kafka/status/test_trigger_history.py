from datetime import UTC, datetime, timedelta

import pytest

from support.ingesting import look, partition_of, plan
from workorders.core.history.workload_history import INTERVALS
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.status.trigger_history import TriggerHistory, list_histories

pytestmark = pytest.mark.integration


@pytest.fixture
def planned(connection: Connection, trigger: Trigger) -> Trigger:
    """Return a trigger whose ledger is at offset 100 of its one partition."""
    plan(connection, trigger, OffsetRange(partition_of(trigger.name), 100, 110))
    return trigger


def history(connection: Connection, trigger: Trigger) -> TriggerHistory:
    return list_histories(connection, datetime.now(UTC))[trigger.name]


def ingested(connection: Connection, trigger: Trigger, messages: int) -> None:
    """Let the ledger have counted messages of each outcome; those that had a work order already do not count."""
    connection.execute(
        "UPDATE workorders.kafka_ledger SET created = %s - 3, rejected = 1, filtered = 2, existing = 50 "
        "WHERE trigger_id = %s",
        [messages, trigger.id],
    )


def test_each_interval_has_the_lag_of_its_last_look_and_what_came_and_went_since_the_look_before(
    connection: Connection, planned: Trigger
) -> None:
    for last_stable, messages, minutes_ago in ((105, 5, 28), (120, 10, 25), (160, 50, 0)):
        ingested(connection, planned, messages)
        look(connection, planned.name, {partition_of(planned.name): last_stable}, ago=timedelta(minutes=minutes_ago))
    found = history(connection, planned)
    assert list(found.lags) == [*[None] * (INTERVALS - 3), 20, None, 60]
    assert list(found.ingested) == [*[0] * (INTERVALS - 1), 40]
    assert (found.arrived_per_minute, found.ingested_per_minute) == (2.0, 2.0)


def test_the_oldest_interval_is_counted_from_the_look_before_it(connection: Connection, planned: Trigger) -> None:
    for messages, minutes_ago in ((10, 365), (25, 355)):
        ingested(connection, planned, messages)
        look(connection, planned.name, {partition_of(planned.name): 100}, ago=timedelta(minutes=minutes_ago))
    assert history(connection, planned).ingested[0] == 15


def test_the_rates_are_unknown_after_a_single_look(connection: Connection, planned: Trigger) -> None:
    look(connection, planned.name, {partition_of(planned.name): 160})
    found = history(connection, planned)
    assert (found.arrived_per_minute, found.ingested_per_minute) == (None, None)
    assert sum(found.ingested) == 0


def test_a_trigger_at_which_nobody_has_looked_for_hours_has_no_history(
    connection: Connection, planned: Trigger
) -> None:
    look(connection, planned.name, {partition_of(planned.name): 160}, ago=timedelta(minutes=365))
    assert planned.name not in list_histories(connection, datetime.now(UTC))
