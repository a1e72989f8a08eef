"""The rights in Kafka that a trigger needs: those that the page lists are enough, and each one that lacks is named."""

from collections.abc import Iterator
from typing import NoReturn

import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]

from local_stack.stack import LocalStack
from support.attempting import ingest_batch, preflight
from support.command import Command
from support.definitions import define
from support.login_path import LoginPath
from support.rights import Rights
from support.topics import Topics
from workorders.airflow.triggers.polling import FAILED
from workorders.core.postgres.connection import Connection
from workorders.kafka.airflow.start_checks import Check, of_kafka
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import GroupCommitError, KafkaRefusedError, TopicForbiddenError
from workorders.kafka.ledger import batches
from workorders.kafka.planning.planner import plan_batch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
def path(stack: LocalStack, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch) -> LoginPath:
    """A topic with messages, and a user without any right."""
    limited = LoginPath(stack, stack.kafka.limited_settings, name, topics)
    limited.as_connection(monkeypatch)
    limited.produce()
    return limited


@pytest.fixture
def rights(stack: LocalStack, path: LoginPath) -> Iterator[Rights]:
    """What the user may do: all that the page lists for a trigger."""
    given = Rights(stack)
    given.give(ResourceType.TOPIC, path.name, AclOperation.READ)
    given.give(ResourceType.GROUP, define(path.name).consumer_group, AclOperation.READ)
    yield given
    given.take_all()


def test_the_rights_of_the_page_are_enough(
    path: LoginPath, rights: Rights, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert FAILED not in path.wait()
    batch_id = path.plan()
    assert [(outcome.error, outcome.created.created) for outcome in path.ingest(batch_id)] == [(None, 5)]
    path.commit(batch_id)
    assert path.committed() == [6]
    assert path.status(Command(monkeypatch, capsys))["problem"] is None


def wrong(path: LoginPath) -> Check | None:
    """Return what the doctor finds wrong with Kafka."""
    return next((check for check in of_kafka(define(path.name)) if not check.ok), None)


def test_the_doctor_finds_nothing_wrong_with_the_rights_of_the_page(path: LoginPath, rights: Rights) -> None:
    assert wrong(path) is None


@pytest.mark.parametrize("instead", [None, AclOperation.DESCRIBE])
def test_the_doctor_names_a_group_whose_offsets_may_not_be_committed(
    path: LoginPath, rights: Rights, instead: AclOperation | None
) -> None:
    group = define(path.name).consumer_group
    rights.take(ResourceType.GROUP, group, AclOperation.READ)
    if instead is not None:
        rights.give(ResourceType.GROUP, group, instead)
    found = wrong(path)
    assert found is not None
    assert found.check == f"consumer group {group}"
    assert f"on group {group} to the user of the Airflow Kafka connection" in found.found
    assert str(found.command).endswith(f"--operation Read --group {group}")


def test_the_doctor_names_a_topic_that_may_not_be_read(path: LoginPath, rights: Rights) -> None:
    rights.give(ResourceType.TOPIC, path.name, AclOperation.DESCRIBE)
    rights.take(ResourceType.TOPIC, path.name, AclOperation.READ)
    found = wrong(path)
    assert found is not None
    assert f"grant Read on topic {path.name} to the user" in found.found


def test_a_topic_that_may_not_be_described_is_named_by_listener_and_planner(path: LoginPath, rights: Rights) -> None:
    rights.take(ResourceType.TOPIC, path.name, AclOperation.READ)
    missing = f"grant Describe on topic {path.name} to the user of the Airflow Kafka connection"
    assert missing in path.wait()[FAILED]
    with pytest.raises(TopicForbiddenError, match=missing):
        path.plan()


def test_a_topic_that_may_not_be_read_stalls_its_ranges_before_spark_starts(
    stack: LocalStack, path: LoginPath, rights: Rights
) -> None:
    def no_spark(_: int) -> NoReturn:
        raise AssertionError("Spark was started.")

    rights.give(ResourceType.TOPIC, path.name, AclOperation.DESCRIBE)
    rights.take(ResourceType.TOPIC, path.name, AclOperation.READ)
    batch_id = path.plan()
    (outcome,) = ingest_batch(JobSecrets(stack.database_url, path.settings), batch_id, no_spark)
    assert outcome.error is not None
    assert outcome.error.startswith(f"{path.name} 0 [0, 6): nothing was committed there.")
    assert f"grant Read on topic {path.name} to the user" in outcome.error
    assert outcome.error.endswith("[WO-KAFKA-REFUSED]")


def test_a_topic_that_may_not_be_read_does_not_hold_up_the_other_topics_of_its_trigger(
    path: LoginPath, rights: Rights, topics: Topics, connection: Connection
) -> None:
    other = topics.create(f"{path.name}-other")
    topics.produce(other, [b"{}"])
    rights.give(ResourceType.TOPIC, other, AclOperation.DESCRIBE)
    definition = define(path.name, topics=[path.name, other])
    batch_id = run(plan_batch(connection, KafkaAdmin(client_settings(path.settings)), definition)).batch_id
    assert batch_id is not None
    prepared = preflight(path.settings, batches.load(connection, batch_id), 1)
    assert [attempt.range.partition.topic for attempt in prepared.attempts] == [path.name]
    assert [range_.partition.topic for range_ in prepared.unreadable] == [other]


@pytest.mark.parametrize("left", [None, AclOperation.DESCRIBE], ids=["no-right", "describe"])
def test_a_group_whose_offsets_may_not_be_committed_is_named(
    path: LoginPath, rights: Rights, left: AclOperation | None
) -> None:
    batch_id = path.planned_and_finished()
    group = define(path.name).consumer_group
    rights.take(ResourceType.GROUP, group, AclOperation.READ)
    if left is not None:
        rights.give(ResourceType.GROUP, group, left)
    with pytest.raises(GroupCommitError, match=f"Trigger {path.name}, batch .* Read on group {group}"):
        path.commit(batch_id)


def test_a_topic_whose_right_was_taken_after_the_ingest_is_named_by_the_commit(path: LoginPath, rights: Rights) -> None:
    batch_id = path.planned_and_finished()
    rights.take(ResourceType.TOPIC, path.name, AclOperation.READ)
    with pytest.raises(GroupCommitError, match=f"{path.name} 0: .* Read on these topics"):
        path.commit(batch_id)


def test_a_group_whose_offsets_may_not_be_read_is_named(path: LoginPath, rights: Rights) -> None:
    group = define(path.name).consumer_group
    rights.take(ResourceType.GROUP, group, AclOperation.READ)
    admin = KafkaAdmin(client_settings(path.settings), timeout_seconds=3.0)
    with pytest.raises(KafkaRefusedError, match=f"Group authorization failed.*; grant Describe on group {group}"):
        run(admin.committed(group, run(admin.partitions([path.name])).require())).require()
