from collections.abc import Mapping
from typing import Any

import pytest

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.eventually import eventually
from support.topics import Topics
from workorders.core import triggers
from workorders.core.exceptions import UnknownNameError
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import register_definition
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.kafka.ledger import positions
from workorders.kafka.partitions import Partition
from workorders.kafka.planning.planner import plan_batch
from workorders.kafka.recovery.resolution import remove_topic
from workorders.kafka.status import PartitionRow, TriggerStatus, collect

pytestmark = pytest.mark.integration

MESSAGES = [b"{}"] * 5


@pytest.fixture
def definition(name: str) -> KafkaTriggerDefinition:
    return KafkaTriggerDefinition(name=name, workflow="admit", topics=(name,))


def answers(cluster: KafkaAdmin, topic: str) -> bool:
    async def ask() -> None:
        partitions = await cluster.partitions([topic])
        (await cluster.offsets(partitions.require())).require()

    try:
        run(ask())
    except KafkaUnavailableError:
        return False
    return True


@pytest.fixture
def topic(topics: Topics, cluster: KafkaAdmin, name: str) -> str:
    topics.create(name, 2)
    # A busy broker names the leader of a new partition a moment before it leads it.
    eventually(lambda: answers(cluster, name), seconds=30, what=f"offsets of the new topic {name}")
    return name


@pytest.fixture
def planned(
    connection: Connection, cluster: KafkaAdmin, topic: str, definition: KafkaTriggerDefinition
) -> KafkaTriggerDefinition:
    """The trigger has looked at its topic, which is empty."""
    assert run(plan_batch(connection, cluster, definition)).batch_id is None
    connection.commit()
    return definition


def look(connection: Connection, stack: LocalStack, name: str) -> TriggerStatus:
    (found,) = collect(connection, lambda _: stack.kafka_settings, name)
    return found


def first(found: TriggerStatus) -> PartitionRow:
    return found.partitions[0]


def partition_of(connection: Connection, name: str) -> Partition:
    return min(positions.positions(connection, name))


def read_up_to(connection: Connection, name: str, offset: int) -> None:
    """Set the ledger of partition 0 to this offset, as after a batch."""
    connection.execute(
        """
        UPDATE workorders.kafka_ledger SET next_offset = %s FROM workorders.triggers
        WHERE triggers.id = trigger_id AND triggers.name = %s AND partition = 0
        """,
        (offset, name),
    )
    connection.commit()


def test_a_transaction_that_hangs_between_others_is_waited_for_and_invisible_offsets_are_none(
    connection: Connection, stack: LocalStack, topics: Topics, planned: KafkaTriggerDefinition
) -> None:
    topics.produce_aborted(planned.name, MESSAGES)
    row = first(look(connection, stack, planned.name))
    # Nothing in these offsets is visible, and only reading them shows that.
    assert (row.status, row.lag) == ("behind", 6)
    with topics.open_transaction(planned.name, MESSAGES):
        topics.produce_committed(planned.name, MESSAGES)
        row = first(look(connection, stack, planned.name))
        assert (row.status, row.lag, row.since) == ("behind", 6, None)
        read_up_to(connection, planned.name, 6)
        row = first(look(connection, stack, planned.name))
        assert (row.status, row.last_stable, row.high_watermark) == ("waiting for an open transaction", 6, 17)
    eventually(
        lambda: first(look(connection, stack, planned.name)).last_stable == 18, seconds=30, what="the end of the log"
    )
    row = first(look(connection, stack, planned.name))
    assert (row.status, row.since) == ("behind", None)
    # The last offset is the marker of the abort.
    read_up_to(connection, planned.name, 18)
    assert first(look(connection, stack, planned.name)).status == "up to date"


def test_a_topic_that_is_missing_does_not_hide_the_others(
    connection: Connection, stack: LocalStack, planned: KafkaTriggerDefinition
) -> None:
    register_definition(connection, planned.model_copy(update={"topics": (planned.name, f"{planned.name}-missing")}))
    connection.commit()
    found = look(connection, stack, planned.name)
    assert found.problem == f"Kafka does not have the topic {planned.name}-missing."
    assert [row.status for row in found.partitions] == ["up to date", "up to date"]


def test_topics_are_found_by_a_pattern(
    connection: Connection, stack: LocalStack, topics: Topics, topic: str, definition: KafkaTriggerDefinition
) -> None:
    register_definition(connection, definition.model_copy(update={"topics": (f"^{topic}$",)}))
    connection.commit()
    found = look(connection, stack, topic)
    assert found.problem is None
    assert [row.status for row in found.partitions] == ["not planned yet", "not planned yet"]


def test_a_topic_of_a_pattern_that_is_deleted_after_all_was_read_needs_nobody(
    connection: Connection,
    stack: LocalStack,
    cluster: KafkaAdmin,
    topics: Topics,
    *,
    topic: str,
    definition: KafkaTriggerDefinition,
) -> None:
    by_pattern = definition.model_copy(update={"topics": (f"^{topic}$",)})
    assert run(plan_batch(connection, cluster, by_pattern)).batch_id is None
    topics.delete(topic)
    assert run(plan_batch(connection, cluster, by_pattern)).batch_id is None
    connection.commit()
    found = look(connection, stack, topic)
    assert found.problem is None
    assert [row.status for row in found.partitions] == ["topic deleted", "topic deleted"]
    assert not any(row.state.needs_attention for row in found.partitions)
    assert remove_topic(connection, cluster, topic, topic) == 2
    connection.commit()
    assert look(connection, stack, topic).partitions == ()


def unreachable(_connection_id: str) -> Mapping[str, Any]:
    bootstrap = f"127.0.0.1:{free_port()}"
    return {"bootstrap.servers": bootstrap, "socket.connection.setup.timeout.ms": 1000, "client.id": "of-this-status"}


def test_the_ledger_is_shown_when_kafka_is_away(
    connection: Connection, planned: KafkaTriggerDefinition, capfd: pytest.CaptureFixture[str]
) -> None:
    (found,) = collect(connection, unreachable, planned.name)
    assert found.problem is not None
    assert "did not answer" in found.problem
    assert [(row.status, row.next_offset, row.last_stable) for row in found.partitions] == [("?", 0, None)] * 2
    # Lines of librdkafka begin with the client's ID; producers of other tests write their own at any time.
    assert "of-this-status" not in capfd.readouterr().err


def test_the_ledger_is_shown_when_the_kafka_client_refuses_its_settings(
    connection: Connection, planned: KafkaTriggerDefinition
) -> None:
    wrong = {"bootstrap.servers": "a:1", "no.such.setting": "1"}
    (found,) = collect(connection, lambda _: wrong, planned.name)
    assert found.problem is not None
    assert "no.such.setting" in found.problem
    assert [row.next_offset for row in found.partitions] == [0, 0]


@pytest.mark.parametrize("with_groups", [False, True])
def test_the_group_is_asked_only_if_that_is_wanted(
    connection: Connection,
    stack: LocalStack,
    cluster: KafkaAdmin,
    planned: KafkaTriggerDefinition,
    *,
    with_groups: bool,
) -> None:
    run(cluster.commit(planned.consumer_group, {partition_of(connection, planned.name): 0}))
    (found,) = collect(connection, lambda _: stack.kafka_settings, planned.name, with_groups=with_groups)
    assert found.problem is None
    assert first(found).committed_offset == (0 if with_groups else None)


def test_triggers_of_other_types_are_left_out(connection: Connection, stack: LocalStack, name: str) -> None:
    triggers.register(connection, name=name, type_="cron", workflow="admit", definition={})
    connection.commit()
    with pytest.raises(UnknownNameError, match="is of type cron"):
        look(connection, stack, name)
    assert name not in [found.name for found in collect(connection, None)]


def test_a_definition_without_its_fields_is_shown_with_their_defaults(
    connection: Connection, stack: LocalStack, trigger: triggers.Trigger
) -> None:
    found = look(connection, stack, trigger.name)
    assert (found.consumer_group, found.kafka_connection) == (f"workorders-{trigger.name}", "kafka_default")
    assert found.partitions == ()
