"""While Kafka is slow to answer one partition, nothing is locked that another partition, trigger or caller needs."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest

from local_stack.stack import LocalStack
from support.admission import BY_ID, BY_NUMBER, event, limit, outcome, register
from support.in_process_trigger import TEN, InProcessTrigger
from support.ingesting import attempt, no_proof, partition_of, plan
from support.topics import Topics
from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.creation.create_one import create_one
from workorders.core.creation.work_orders import Created, create_for
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.settings import client_settings
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest, apply, preview

pytestmark = pytest.mark.integration

SHORT = "SET LOCAL lock_timeout = '2s'"
"""Much less than the slow answer lasts, so a lock that is held meanwhile fails the test."""


@contextmanager
def asking_kafka(stack: LocalStack, made: Attempt, items: list[Item]) -> Iterator[Callable[[], Created]]:
    """Ingest a range whose topic is being asked for as long as the context lasts; yields what ends that."""
    asked, answer = Event(), Event()

    def slow() -> None:
        asked.set()
        assert answer.wait(60)

    def ingested() -> Created:
        with connect(stack.database_url) as own:
            return ingest(own, made, items, no_proof, slow)

    with ThreadPoolExecutor(1) as pool:
        try:
            begun = pool.submit(ingested)
            assert asked.wait(30)

            def answered() -> Created:
                answer.set()
                return begun.result(60)

            yield answered
        finally:
            answer.set()


def ranged(name: str, number: int = 0, messages: int = 1) -> OffsetRange:
    return OffsetRange(partition_of(name, number), 0, messages)


@pytest.mark.parametrize("on_reached", ["reject", "wait"])
def test_a_webhook_of_the_same_limited_workflow_does_not_wait(
    stack: LocalStack, connection: Connection, name: str, on_reached: str
) -> None:
    limit(connection, name, max_waiting=1000, max_per_day=1000, on_reached=on_reached)
    kafka = register(connection, name, workflow=name)
    webhook = triggers.register(connection, name=f"{name}-hook", type_="webhook", workflow=name, definition={})
    batch_id = plan(connection, kafka, ranged(name))
    webhook = triggers.find(connection, webhook.name)
    made = attempt(connection, batch_id)
    with asking_kafka(stack, made, [event(0, stream_name(made.range.partition))]) as answered:
        connection.execute(SHORT)
        assert create_one(connection, webhook, event(None)).created
        connection.commit()
        assert answered() == Created(1, 0, 0)


@pytest.mark.parametrize("replayed", [False, True], ids=["a fresh range", "a replay"])
def test_the_same_idempotency_key_in_another_partition_is_taken_at_once_and_refused_here_afterwards(
    stack: LocalStack, connection: Connection, name: str, *, replayed: bool
) -> None:
    trigger = register(connection, name, idempotency=BY_ID)
    batch_id = plan(connection, trigger, ranged(name))
    made = attempt(connection, batch_id)
    if replayed:
        with connect(stack.database_url) as own:
            ingest(own, made, [], lambda _: None, lambda: None)
        made = attempt(connection, batch_id)
    here = [event(0, stream_name(made.range.partition), id="a")]
    with asking_kafka(stack, made, here) as answered:
        connection.execute(SHORT)
        there = [event(0, stream_name(partition_of(name, 1)), id="a")]
        assert create_for(connection, trigger, there) == Created(1, 0, 0)
        connection.commit()
        assert answered() == Created(0, 1, 0, 1)
    assert [row[1:] for row in outcome(connection, trigger, "id")] == [("rejected", "duplicate"), ("pending", None)]


def test_the_same_sequence_in_another_partition_continues(stack: LocalStack, connection: Connection, name: str) -> None:
    trigger = register(connection, name, sequence=BY_NUMBER)
    made = attempt(connection, plan(connection, trigger, ranged(name)))
    with asking_kafka(stack, made, [event(0, stream_name(made.range.partition), key="a", number=2)]) as answered:
        connection.execute(SHORT)
        there = [event(0, stream_name(partition_of(name, 1)), key="a", number=1)]
        assert create_for(connection, trigger, there) == Created(1, 0, 0)
        connection.commit()
        assert answered() == Created(1, 0, 0)
    assert [row[1] for row in outcome(connection, trigger, "number")] == ["pending", "pending"]


def test_other_partitions_are_planned_and_ingested_while_a_decision_sets_the_group_back(
    stack: LocalStack, connection: Connection, topics: Topics, name: str
) -> None:
    topics.create(name, partitions=2)
    trigger = InProcessTrigger(stack, name)
    for number in range(2):
        topics.produce(name, TEN, partition=number)
    trigger.until_idle()
    topics.produce(name, TEN, partition=0)
    trigger.batch()
    there = triggers.find(connection, name)
    connection.commit()

    class Slow(KafkaAdmin):
        asked = 0

        async def commit(self, group: str, positions: Mapping[Partition, int]) -> None:
            if not positions:
                return
            self.asked += 1
            with connect(stack.database_url) as own:
                own.execute(SHORT)
                ledger.lock_trigger(own, there)  # as a planner does
                for partition in ledger.positions(own, name):
                    ledger.lock(own, there, partition)
                own.rollback()
            await super().commit(group, positions)

    slow = Slow(client_settings(stack.kafka_settings))
    with connect(stack.database_url) as own:
        shown = preview(own, slow, DecisionRequest(DecisionKind.SEEK, name, name, (0,), 3))
        apply(own, slow, shown, Attribution("ada", "a test"), group=trigger.definition.consumer_group)
    assert slow.asked == 1
    moved = {
        partition.partition: position.next_offset for partition, position in ledger.positions(connection, name).items()
    }
    assert moved == {0: 3, 1: 10}
