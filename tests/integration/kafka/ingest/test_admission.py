"""Idempotency keys and limits on messages of a real broker, by the way that every range takes, without the JVM."""

import pytest

from local_stack.stack import LocalStack
from support.admission import ids, limit
from support.in_process_trigger import InProcessTrigger, kept
from support.ingesting import row
from support.topics import Topics
from workorders.core import triggers
from workorders.core.history.work_orders import get_work_order
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.settings import client_settings
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.ledger import batches, stalls
from workorders.kafka.spark.partition_ingest import PartitionIngest

pytestmark = pytest.mark.integration


def attempt(stack: LocalStack, kafka_trigger: InProcessTrigger, batch_id: int) -> RangeOutcome:
    """Make one attempt at a batch of one range, as the driver does, and write its failure down."""
    (prepared,) = kafka_trigger.prepare(batch_id).attempts
    mapping = RecordMapping.of(kafka_trigger.definition)
    task = PartitionIngest(stack.database_url, client_settings(stack.kafka_settings), mapping, [prepared])
    outcome = task.ingest_without_spark(prepared)
    with connect(stack.database_url, autocommit=True) as own:
        if outcome.error is not None:
            stalls.record(own, batches.load(own, batch_id), prepared.epoch, {outcome.range: outcome.error})
    return outcome


def planned(kafka_trigger: InProcessTrigger) -> int:
    return kafka_trigger.batch()


def test_a_message_that_a_producer_sent_again_is_a_duplicate_also_in_a_later_batch_and_in_a_replay(
    stack: LocalStack, topics: Topics, connection: Connection, name: str
) -> None:
    topics.create(name)
    rule = {"key": "header:event-id", "window": "1h"}
    kafka_trigger = InProcessTrigger(stack, name, idempotency=rule, max_rejected_share=0.1)
    for event_id in (b"a", b"b", b"a"):
        topics.produce(name, [b"{}"], headers=[("event-id", event_id)])
    first = planned(kafka_trigger)
    created = attempt(stack, kafka_trigger, first).created
    assert (created.created, created.rejected, created.rejected_by_rule) == (2, 1, 1)
    for event_id in [b"b"] * 12:
        topics.produce(name, [b"{}"], headers=[("event-id", event_id)])
    # All of it repeats: that is no fault of the reader, so the breaker holds still.
    again = attempt(stack, kafka_trigger, planned(kafka_trigger))
    assert (again.error, again.created.created, again.created.rejected) == (None, 0, 12)
    assert attempt(stack, kafka_trigger, first).created.existing == 3
    trigger = triggers.find(connection, name)
    original_b, repeat_b = ids(connection, trigger)[1], ids(connection, trigger)[-1]
    assert get_work_order(connection, repeat_b).duplicate_of == original_b
    assert [len(places) for places in kept(connection, name).values()] == [15]


def test_a_limit_that_waits_stalls_the_partition_with_its_sentence_until_there_is_room(
    stack: LocalStack, topics: Topics, connection: Connection, name: str
) -> None:
    topics.create(name)
    kafka_trigger = InProcessTrigger(stack, name, workflow=name)
    topics.produce(name, [b"{}"] * 3)
    attempt(stack, kafka_trigger, planned(kafka_trigger))
    limit(connection, name, max_waiting=4, on_reached="wait")
    connection.commit()
    topics.produce(name, [b"{}"] * 3)
    batch_id = planned(kafka_trigger)
    refused = attempt(stack, kafka_trigger, batch_id).error
    assert refused == (
        f"{name}: {name} 0 [3, 6): Workflow {name} has capacity for 1 more work orders and 3 came at once: its "
        f"limit is 4 work orders that wait. Nothing was created for trigger {name}; it continues by itself when runs "
        f"finish, or when the limit is raised. Nothing was committed there. [WO-WORKFLOW-FULL]"
    )
    trigger = triggers.find(connection, name)
    stalled = row(connection, trigger)
    assert (stalled.status, stalled.next_offset, stalled.last_error) == ("stalled", 3, refused)
    assert len(ids(connection, trigger)) == 3
    connection.execute("UPDATE workorders.work_orders SET state = 'success' WHERE trigger_id = %s", (trigger.id,))
    connection.commit()
    assert attempt(stack, kafka_trigger, batch_id).error is None
    assert list(kept(connection, name).values()) == [[0, 1, 2, 3, 4, 5]]
