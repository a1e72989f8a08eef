"""The outbox through the real Airflow: from a commit in Postgres to a consumer, and a refusal that people see."""

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.consumed import consumed
from support.eventually import eventually
from support.topics import Topics
from workorders.core.database import connect
from workorders.outbox import OutboxMessage, enqueue, operating

DAG = "outbox_relay"
SECONDS = 180.0


@pytest.fixture
def topic(airflow_stack: LocalStack) -> str:
    """A topic of this test alone."""
    topics = Topics(airflow_stack.kafka_settings)
    return topics.create("e2e.outbox", partitions=2)


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
    errors = eventually(lambda: refusal(api), seconds=SECONDS, what="A try that says what was refused", every=1)
    assert any("Topic e2e.nowhere takes no messages: the cluster has no such topic." in error for error in errors)
    with connect(airflow_stack.database_url) as connection:
        assert [(hold.kind, hold.topic) for hold in operating.holds(connection)] == [("topic", "e2e.nowhere")]
        for hold in operating.holds(connection):
            connection.execute("DELETE FROM workorders.outbox_messages WHERE topic = 'e2e.nowhere'")
            operating.release_hold(connection, hold.id)


def values(stack: LocalStack, topic: str) -> list[bytes]:
    return [message.value() or b"" for message in consumed(stack.kafka_settings, topic)]


def refusal(api: AirflowApi) -> list[str]:
    """Return the errors of a drain's first failed try; none while there is no such try."""
    for run in api.runs(DAG):
        for task in api.tasks(run):
            if task.id == "drain" and (task.try_number > 1 or task.state in {"failed", "up_for_retry"}):
                return [
                    str(line["error_detail"][-1]["exc_value"]) for line in api.log(task, 1) if line.get("error_detail")
                ]
    return []
