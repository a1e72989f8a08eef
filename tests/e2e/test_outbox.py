"""The outbox through the real Airflow: from a commit in Postgres to a consumer, and failures that people see."""

from uuid import uuid4

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Task
from support.consumed import consumed
from support.eventually import eventually
from support.topics import Topics
from workorders.core.postgres.connection import Connection, connect
from workorders.outbox import OutboxMessage, admin, enqueue
from workorders.outbox.exceptions import OutboxDecisionError

DAGS = ("workorders_outbox_0", "workorders_outbox_1")
SECONDS = 180.0


@pytest.fixture
def topic(airflow_stack: LocalStack) -> str:
    """A topic of this test alone."""
    topics = Topics(airflow_stack.kafka_settings)
    return topics.create(f"e2e.outbox.{uuid4().hex[:8]}", partitions=2)


def test_committed_messages_arrive_once_and_a_refusal_is_a_task_instance(
    airflow_stack: LocalStack, api: AirflowApi, topic: str
) -> None:
    messages = [OutboxMessage(topic=topic, key=f"k{n % 5}", value=str(n)) for n in range(50)]
    with connect(airflow_stack.database_url) as connection:
        enqueue(connection, [*messages, OutboxMessage(topic="e2e.nowhere", key="k", value="x")])
        connection.commit()
        enqueue(connection, OutboxMessage(topic=topic, value="never"))
        connection.rollback()
    eventually(lambda: len(values(airflow_stack, topic)) >= 50, seconds=SECONDS, what="The messages in Kafka", every=1)
    assert sorted(values(airflow_stack, topic)) == sorted(str(n).encode() for n in range(50))
    errors = eventually(
        lambda: failures(api, "e2e.nowhere"), seconds=SECONDS, what="A try that names what was refused", every=1
    )
    assert any("Topic e2e.nowhere takes no messages: the cluster has no such topic." in error for error in errors)
    with connect(airflow_stack.database_url) as connection:
        assert [(hold.kind, hold.topic) for hold in admin.holds(connection)] == [("topic", "e2e.nowhere")]
        for hold in admin.holds(connection):
            connection.execute("DELETE FROM workorders.outbox_messages WHERE topic = 'e2e.nowhere'")
            admin.release_hold(connection, hold.id)


@pytest.mark.long
def test_a_stalled_shard_is_a_task_instance_and_the_other_shard_continues(
    airflow_stack: LocalStack, api: AirflowApi, topic: str
) -> None:
    with connect(airflow_stack.database_url) as connection:
        still, going = keys_by_shard(connection, topic)
    eventually(lambda: restore_if_free(airflow_stack, topic, still), seconds=SECONDS, what="The end of a relay")
    errors = eventually(lambda: failures(api, "Shard 0"), seconds=SECONDS, what="A try that names the stall")
    assert any("Shard 0 of the outbox is stalled" in error for error in errors)
    # Two runs of the other shard's DAG: its next one does not wait for the stalled one.
    for value in ("one", "two"):
        sent_by_a_run(airflow_stack, api, OutboxMessage(topic=topic, key=going, value=value))
    assert b"waits" not in values(airflow_stack, topic)
    eventually(lambda: release_if_free(airflow_stack), seconds=SECONDS, what="The end of a relay's try")
    eventually(lambda: b"waits" in values(airflow_stack, topic), seconds=SECONDS, what="The message", every=1)


def restore_if_free(stack: LocalStack, topic: str, key: str) -> bool:
    """Make the first shard as if its database had been restored, write a message, and return whether this was done.

    A batch is open then, and its checkpoint is not the last one in Kafka. Nothing is done while a relay has the shard,
    because a relay that has begun would not notice.
    """
    with connect(stack.database_url) as connection:
        free = connection.execute(
            "UPDATE workorders.outbox_shards SET checkpoint_batch = 7000 WHERE shard = 0 AND owner IS NULL"
        ).rowcount
        if free:
            connection.execute(
                "INSERT INTO workorders.outbox_claims (shard, batch, topic, bucket, ids) "
                "VALUES (0, 7001, %s, 0, ARRAY[1])",
                [topic],
            )
            enqueue(connection, OutboxMessage(topic=topic, key=key, value="waits"))
    return bool(free)


def sent_by_a_run(stack: LocalStack, api: AirflowApi, message: OutboxMessage) -> None:
    """Write a message for the second shard, and wait until it was sent and the shard's next run has begun."""
    runs = len(api.runs(DAGS[1]))
    with connect(stack.database_url) as connection:
        enqueue(connection, message)
    value = str(message.value).encode()
    eventually(lambda: value in values(stack, message.topic), seconds=SECONDS, what=f"Message {value!r}")
    eventually(lambda: len(api.runs(DAGS[1])) > runs, seconds=SECONDS, what="The next run", every=1)


def release_if_free(stack: LocalStack) -> bool:
    """Decide about the shard unless a relay tries it, and return whether this was done."""
    with connect(stack.database_url) as connection:
        try:
            admin.release_shard(connection, 0, sent=False)
        except OutboxDecisionError:
            return False
    return True


def keys_by_shard(connection: Connection, topic: str) -> list[str]:
    """Return a key of each of two shards."""
    found = connection.execute(
        """
        SELECT min(made.key) FROM (SELECT 'k' || number AS key FROM generate_series(1, 50) AS number) AS made
        GROUP BY get_byte(workorders.outbox_hash(%(topic)s, convert_to(made.key, 'UTF8')), 4) & 1
        ORDER BY get_byte(workorders.outbox_hash(%(topic)s, convert_to(min(made.key), 'UTF8')), 4) & 1
        """,
        {"topic": topic},
    ).fetchall()
    return [row[0] for row in found]


def values(stack: LocalStack, topic: str) -> list[bytes]:
    return [message.value() or b"" for message in consumed(stack.kafka_settings, topic)]


def failures(api: AirflowApi, about: str) -> list[str]:
    """Return the errors of drains' tries that name something; none while there is no such try."""
    return [
        error
        for dag in DAGS
        for run in api.runs(dag)
        for task in api.tasks(run)
        if task.id == "send_messages"
        for try_number in range(1, task.try_number + 1)
        for error in errors_of(api, task, try_number)
        if about in error
    ]


def errors_of(api: AirflowApi, task: Task, try_number: int) -> list[str]:
    """Return what a try ended with; none where it did not fail, or was killed."""
    lines = [line for line in api.log(task, try_number) if line.get("error_detail")]
    return [str(line["error_detail"][-1]["exc_value"]) for line in lines]
