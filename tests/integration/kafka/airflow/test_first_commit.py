"""The commit of offsets at a broker that has no coordinator for the group yet: nothing fails where people see it."""

import json
from collections.abc import Iterator

import pytest

from local_stack.stack import LocalStack
from support.definitions import define
from support.ingesting import finish, plan
from support.topics import Topics
from support.tries import a_try
from workorders.airflow.retries import unlimited_retries
from workorders.core import triggers
from workorders.core.postgres.connection import connect
from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings
from workorders.kafka.partitions import OffsetRange, Partition

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def fresh() -> Iterator[LocalStack]:
    """A stack of its own: that of the other tests had its first group long ago."""
    with LocalStack(name="first-commit") as stack:
        yield stack


def test_neither_the_first_group_of_a_broker_nor_one_that_it_is_just_reading_fails_the_task(
    fresh: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = json.dumps({"conn_type": "kafka", "extra": dict(fresh.kafka_settings)})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", kafka)
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", fresh.database_url)
    topics = Topics(fresh.kafka_settings)
    topics.create("orders")
    (partition,) = run(asked(fresh).partitions(["orders"])).require()
    commit(fresh, partition, 5)
    # A broker that was killed has its groups to read when it is back.
    fresh.kafka.kill()
    fresh.kafka.start()
    commit(fresh, partition, 10)
    assert run(asked(fresh).committed(define("orders").group, [partition])).require() == {partition: 10}


def asked(stack: LocalStack) -> KafkaAdmin:
    return KafkaAdmin(client_settings(stack.kafka_settings))


def commit(stack: LocalStack, partition: Partition, end: int) -> None:
    """Plan and finish a batch of five offsets, and run the first and only try of its commit."""
    with connect(stack.database_url) as connection:
        trigger = triggers.register(connection, name="orders", type_="kafka", workflow="admit", definition={})
        range_ = OffsetRange(partition, end - 5, end)
        batch_id = plan(connection, trigger, range_)
        finish(connection, batch_id, range_)
    CommitOffsetsOperator(
        task_id="commit", definition=define("orders"), batch_id=batch_id, **unlimited_retries()
    ).execute(a_try())
