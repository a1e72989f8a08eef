"""A partition without a leader, or a topic that does not exist, is stalled alone."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from local_stack.stack import LocalStack
from support.definitions import define
from support.eventually import eventually
from support.lost_broker import LostBroker
from support.topics import Topics
from workorders.core import triggers
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest.log_checks import check_batch
from workorders.kafka.ledger import batches, positions
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.planning.planner import Plan, plan_batch, register

FIVE = [b"{}"] * 5
Planner = Callable[[], Plan]


@pytest.fixture
def definition(lost_broker: LostBroker, topics: Topics, name: str) -> KafkaTriggerDefinition:
    """A trigger of a topic with five messages and of one without a leader."""
    topics.create(name)
    topics.produce(name, FIVE)
    return define(name, topics=[name, lost_broker.topic])


@pytest.fixture
def plan(stack: LocalStack, cluster: KafkaAdmin, definition: KafkaTriggerDefinition) -> Planner:
    """Plans on a separate connection, as a task does."""

    def planned() -> Plan:
        with connect(stack.database_url) as own:
            return run(plan_batch(own, cluster, definition))

    return planned


@pytest.fixture
def known(connection: Connection, cluster: KafkaAdmin, definition: KafkaTriggerDefinition) -> Connection:
    """The database, whose ledger has the lost partition as well."""
    trigger = register(connection, definition)
    (lost,) = run(cluster.partitions(definition.topics[1:])).require()
    positions.insert(connection, trigger, lost, 5)
    connection.commit()
    return connection


def stalls(connection: Connection, name: str) -> dict[str, str | None]:
    found = {row.topic: row.last_error for row in positions.status(connection, name) if row.status == "stalled"}
    connection.rollback()
    return found


def test_a_partition_without_a_leader_is_stalled_and_the_others_are_planned(
    plan: Planner, known: Connection, lost_broker: LostBroker, name: str
) -> None:
    planned = plan()
    assert [str(range_) for range_ in planned.ranges] == [f"{name} 0 [0, 5)"]
    assert stalls(known, name) == {lost_broker.topic: planned.stalled[0]}
    assert planned.stalled[0].startswith(f"{lost_broker.topic} 0: nothing was planned there. Kafka at ")
    assert "is electing a leader of a partition" in planned.stalled[0]
    assert plan().stalled == ()  # recorded once
    # Nobody asks for it any more.
    trigger = triggers.find(known, name)
    positions.record_unanswered(known, trigger, {})
    assert stalls(known, name) == {}


def test_a_partition_without_a_leader_has_no_starting_offset_and_is_named(
    plan: Planner, connection: Connection, lost_broker: LostBroker, name: str
) -> None:
    planned = plan()
    assert [str(range_) for range_ in planned.ranges] == [f"{name} 0 [0, 5)"]
    assert list(planned.errors) == [(lost_broker.topic, 0)]
    assert {partition.topic for partition in positions.positions(connection, name)} == {name}


def test_a_range_of_a_partition_without_a_leader_fails_alone(
    stack: LocalStack, known: Connection, cluster: KafkaAdmin, definition: KafkaTriggerDefinition, name: str
) -> None:
    trigger = triggers.find(known, name)
    kept, lost = run(cluster.partitions(definition.topics)).require()
    positions.insert(known, trigger, kept, 0)
    batch_id = batches.create(known, trigger, [OffsetRange(kept, 0, 5), OffsetRange(lost, 5, 6)], [])
    checked = run(check_batch(cluster, batches.load(known, batch_id), 1))
    assert [attempt.range.partition for attempt in checked.attempts] == [kept]
    (error,) = checked.unreadable.values()
    assert "[WO-KAFKA-UNAVAILABLE]" in str(error)
    assert str(error).startswith(f"{lost.topic} 0 [5, 6): nothing was committed there. ")


def test_clients_from_before_a_broker_was_lost_answer_for_the_others(
    lost_broker: LostBroker, topics: Topics, name: str
) -> None:
    topics.create(name)

    def answers(client: KafkaAdmin) -> bool:
        begun, processor = time.monotonic(), time.process_time()
        found = run(client.log_ends([name, lost_broker.topic]))
        is_idle = time.process_time() - processor < 0.5
        return time.monotonic() - begun < 2 and is_idle and list(found.found) == [(name, 0)]

    for client in lost_broker.clients:
        eventually(partial(answers, client), seconds=60, what="an answer without a wait")
