"""The commit of offsets: it follows the ledger whatever happened to the group, and reports why it could not."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from local_stack import jars
from local_stack.broker import Kafka
from local_stack.java import find_java
from local_stack.stack import LocalStack
from support.definitions import define
from support.eventually import eventually
from support.groups import commit, member
from support.in_process_trigger import InProcessTrigger
from support.ingesting import finish, plan
from support.topics import Topics
from support.tries import a_try
from workorders.airflow.retries import unlimited_retries
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import GroupCommitError, KafkaUnavailableError
from workorders.kafka.partitions import OffsetRange, Partition

pytestmark = pytest.mark.integration

CONTEXT: Any = a_try(3)


@pytest.fixture
def partition(topics: Topics, cluster: KafkaAdmin, name: str) -> Partition:
    """A topic with five messages."""
    topics.create(name)
    topics.produce(name, [b"{}"] * 5)
    (found,) = run(cluster.partitions([name])).require()
    return found


@pytest.fixture
def task(
    stack: LocalStack,
    connection: Connection,
    cluster: KafkaAdmin,
    trigger: Trigger,
    partition: Partition,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> CommitOffsetsOperator:
    """The commit of a batch that took all five messages, to a group whose coordinator has begun."""
    group = define(trigger.name).consumer_group

    def coordinated() -> bool:
        try:
            run(cluster.committed(group, [partition])).require()
        except KafkaUnavailableError:
            return False
        return True

    # A broker that was just started makes the topic of groups only when the first one asks.
    eventually(coordinated, seconds=60, what="a coordinator for the group")
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": dict(stack.kafka_settings)})
    )
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    range_ = OffsetRange(partition, 0, 5)
    batch_id = plan(connection, trigger, range_)
    finish(connection, batch_id, range_)
    connection.commit()
    return CommitOffsetsOperator(
        task_id="commit_offsets", definition=define(trigger.name), batch_id=batch_id, **unlimited_retries()
    )


def fail(task: CommitOffsetsOperator) -> str:
    with pytest.raises(GroupCommitError) as raised:
        task.execute(CONTEXT)
    sentence = str(raised.value)
    assert sentence.startswith(f"Trigger {task.definition.name}, batch {task.batch_id}: ")
    assert "the ledger, which does not depend on the group" in sentence
    assert sentence.endswith(" Next try in 4 s.")
    return sentence


@pytest.mark.parametrize("before", [None, 1, 99], ids=["expired or deleted", "reset", "ahead"])
def test_the_group_is_put_where_the_ledger_is(
    cluster: KafkaAdmin, partition: Partition, task: CommitOffsetsOperator, before: int | None
) -> None:
    if before is not None:
        commit(cluster, task.definition.consumer_group, {partition: before})
    task.execute(CONTEXT)
    assert run(cluster.committed(task.definition.consumer_group, [partition])).require() == {partition: 5}


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "re-created"])
def test_nothing_is_committed_of_a_topic_that_kafka_does_not_have(
    stack: LocalStack,
    cluster: KafkaAdmin,
    topics: Topics,
    partition: Partition,
    task: CommitOffsetsOperator,
    *,
    again: bool,
) -> None:
    """The batch of it is finished, so its run ends as well."""
    if again:
        InProcessTrigger(stack, partition.topic).recreated(
            lambda: topics.delete(partition.topic), lambda: topics.create(partition.topic)
        )
    else:
        topics.delete(partition.topic)
    task.execute(CONTEXT)
    if again:
        assert run(cluster.committed(task.definition.consumer_group, [partition])).require() == {partition: None}


def test_offsets_of_another_triggers_batch_are_not_committed(
    cluster: KafkaAdmin, partition: Partition, task: CommitOffsetsOperator
) -> None:
    other = CommitOffsetsOperator(task_id="commit", definition=define("another"), batch_id=task.batch_id)
    with pytest.raises(AirflowFailException, match=f"^Batch {task.batch_id} belongs to trigger {task.definition.name}"):
        other.execute(CONTEXT)
    assert run(cluster.committed(other.definition.consumer_group, [partition])).require() == {partition: None}


def test_a_commit_that_outlived_its_lock_is_corrected_by_the_retry(
    stack: LocalStack,
    cluster: KafkaAdmin,
    partition: Partition,
    task: CommitOffsetsOperator,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ledger was set back while the task did not run, so the group is ahead until the task's next try."""

    class Late(KafkaAdmin):
        async def commit(self, group: str, positions: Mapping[Partition, int]) -> None:
            with connect(stack.database_url, autocommit=True) as own:
                own.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND application_name = 'workorders commit'"
                )
                own.execute("UPDATE workorders.kafka_ledger SET next_offset = 2 WHERE topic = %s", [partition.topic])
            await super().commit(group, positions)

    with monkeypatch.context() as patched:
        patched.setattr("workorders.kafka.airflow.commit_offsets.KafkaAdmin", Late)
        fail(task)
    assert run(cluster.committed(task.definition.consumer_group, [partition])).require() == {partition: 5}
    task.execute(CONTEXT)
    assert run(cluster.committed(task.definition.consumer_group, [partition])).require() == {partition: 2}


def test_a_stranger_in_the_group_is_an_error_and_the_commit_follows_once_he_has_gone(
    stack: LocalStack, connection: Connection, cluster: KafkaAdmin, partition: Partition, task: CommitOffsetsOperator
) -> None:
    group = task.definition.consumer_group
    with member(stack.kafka_settings, group, partition.topic):
        assert "another consumer is in this group: stop it" in fail(task)
    assert run(cluster.committed(group, [partition])).require() == {partition: None}
    task.execute(CONTEXT)
    assert run(cluster.committed(group, [partition])).require() == {partition: 5}


def test_the_run_of_an_unfinished_batch_ends_and_commits_nothing(
    connection: Connection, cluster: KafkaAdmin, trigger: Trigger, partition: Partition, task: CommitOffsetsOperator
) -> None:
    """A person has marked the task before as success; an active run would keep the listener from starting it again."""
    task.batch_id = plan(connection, trigger, OffsetRange(partition, 5, 7))
    task.execute(CONTEXT)
    assert run(cluster.committed(task.definition.consumer_group, [partition])).require() == {partition: None}


@pytest.fixture
def fresh(stack: LocalStack) -> Iterator[Kafka]:
    """A broker of its own: that of the other tests had its first group long ago."""
    kafka = Kafka(stack.processes, stack.home, java=find_java(), jars=jars.fetch("kafka"), name="kafka-first-commit")
    kafka.create()
    yield kafka
    kafka.stop()


def test_neither_the_first_group_of_a_broker_nor_one_that_it_is_just_reading_fails_the_task(
    stack: LocalStack,
    connection: Connection,
    trigger: Trigger,
    fresh: Kafka,
    *,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"bootstrap.servers": fresh.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": settings}))
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    Topics(settings).create(name)
    (partition,) = run(KafkaAdmin(client_settings(settings)).partitions([name])).require()
    commit_batch(connection, trigger, partition, 5)
    # A broker that was killed has its groups to read when it is back.
    fresh.kill()
    fresh.start()
    commit_batch(connection, trigger, partition, 10)
    cluster = KafkaAdmin(client_settings(settings))
    assert run(cluster.committed(define(name).consumer_group, [partition])).require() == {partition: 10}


def commit_batch(connection: Connection, trigger: Trigger, partition: Partition, end: int) -> None:
    """Plan and finish a batch of five offsets, and run the first and only try of its commit."""
    range_ = OffsetRange(partition, end - 5, end)
    batch_id = plan(connection, trigger, range_)
    finish(connection, batch_id, range_)
    connection.commit()
    CommitOffsetsOperator(
        task_id="commit", definition=define(trigger.name), batch_id=batch_id, **unlimited_retries()
    ).execute(a_try())
