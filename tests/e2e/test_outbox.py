"""The outbox through the real Airflow: from a commit in Postgres to a consumer, and failures that people see."""

from uuid import uuid4

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi, Task
from support.consumed import consumed
from support.eventually import eventually
from support.topics import Topics
from workorders.core.postgres.connection import connect
from workorders.outbox import OutboxMessage, admin, enqueue

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
