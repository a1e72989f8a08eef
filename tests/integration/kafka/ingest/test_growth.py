"""A batch grows while messages arrive, and stops where its growth would harm others or itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from local_stack.stack import LocalStack
from support.in_process_trigger import TEN, InProcessTrigger, kept
from support.topics import Topics
from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import ForeignBatchError
from workorders.kafka.ingest.ingest_attempt import GrowingBatch, ingest_attempt
from workorders.kafka.ledger import batches, positions
from workorders.kafka.ledger.batches import Batch
from workorders.kafka.planning import planner

pytestmark = pytest.mark.integration

ONE = [b"{}"]


@dataclass
class Growing:
    """A trigger whose attempts grow their batches, without Spark."""

    trigger: InProcessTrigger
    batch_id: int
    rounds: list[str] = field(default_factory=list)
    """The ranges of each round that was added."""

    def attempt(self, after_round: Callable[[int], object] = lambda _: None, *, slice_seconds: float = 60.0) -> None:
        """Ingest the batch and let it grow; something may happen after each round, 0 for the planned ranges."""
        stack = self.trigger.stack
        secrets = JobSecrets(stack.database_url, stack.kafka_settings)
        with ingest_attempt(secrets, self.batch_id, application_name="test") as attempt:
            attempt.resume(None)
            for one in attempt.prepared.attempts:
                self.trigger.ingest(one)
            after_round(0)
            for added in GrowingBatch(attempt, slice_seconds=slice_seconds).rounds():
                self.rounds.append(", ".join(str(one.range) for one in added))
                for one in added:
                    self.trigger.ingest(one)
                after_round(len(self.rounds))
            attempt.settle()

    def change(self, **fields: object) -> None:
        """Let a planner store another definition of the trigger."""
        changed = KafkaTriggerDefinition.model_validate({**self.trigger.definition.model_dump(mode="json"), **fields})
        with connect(self.trigger.stack.database_url) as connection:
            planner.register(connection, changed)

    @property
    def database(self) -> Connection:
        """A new connection."""
        return connect(self.trigger.stack.database_url, autocommit=True)


@pytest.fixture
def growing(stack: LocalStack, topics: Topics, name: str) -> Growing:
    """A batch of one message of partition 0, whose attempt waits for a second for more."""
    topics.create(name, partitions=2)
    topics.produce(name, ONE)
    trigger = InProcessTrigger(stack, name, linger=1.0, max_messages=10)
    return Growing(trigger, trigger.batch())


def loaded(connection: Connection, growing: Growing) -> Batch:
    connection.rollback()
    return batches.load(connection, growing.batch_id)


def produce_once(topics: Topics, name: str, number: int = 0) -> Callable[[int], None]:
    """Return what lets ten messages arrive after the planned ranges, and none later."""
    return lambda rounds: None if rounds else topics.produce(name, TEN, number)


def test_messages_that_arrive_join_the_batch_round_by_round_and_its_ranges_become_one(
    connection: Connection, growing: Growing, topics: Topics, name: str
) -> None:
    growing.attempt(lambda rounds: topics.produce(name, ONE, rounds % 2) if rounds < 3 else None)
    assert growing.rounds == [f"{name} 0 [1, 2)", f"{name} 1 [0, 1)", f"{name} 0 [2, 3)"]
    batch = loaded(connection, growing)
    assert batch.label == f"{name} 0 [0, 3), {name} 1 [0, 1)"
    assert [range_.created for range_ in batch.finished] == [3, 1]
    assert sorted(map(len, kept(connection, name).values())) == [1, 3]
    assert not batches.last_plan(connection, name).is_open, "the listener plans again at once"
    assert len(batches.summaries(connection, name)) == 1


def test_a_round_has_at_most_the_messages_of_a_batch_and_a_backlog_takes_several(
    growing: Growing, topics: Topics, name: str
) -> None:
    growing.attempt(lambda rounds: None if rounds else topics.produce(name, [*TEN, *TEN, *ONE]))
    assert growing.rounds == [f"{name} 0 [1, 11)", f"{name} 0 [11, 21)", f"{name} 0 [21, 22)"]


def test_a_batch_without_linger_does_not_grow(growing: Growing, topics: Topics, name: str) -> None:
    growing.change(linger=0.0)
    growing.attempt(produce_once(topics, name))
    assert growing.rounds == []


def test_growth_ends_with_the_time_slice_although_messages_wait(growing: Growing, topics: Topics, name: str) -> None:
    growing.attempt(produce_once(topics, name), slice_seconds=0.0)
    assert growing.rounds == []


@pytest.mark.parametrize(
    "fields", [{"max_messages": 9}, {"filter": {"body:/a": 1}}, {"linger": 2.0}], ids=lambda fields: next(iter(fields))
)
def test_a_changed_definition_takes_effect_with_the_next_batch(
    connection: Connection, growing: Growing, topics: Topics, name: str, fields: dict[str, object]
) -> None:
    def changed(rounds: int) -> None:
        topics.produce(name, ONE)
        if rounds == 1:
            growing.change(**fields)

    growing.attempt(changed)
    assert growing.rounds == [f"{name} 0 [1, 2)"]
    stored = connection.execute("SELECT definition FROM workorders.triggers WHERE name = %s", (name,)).fetchone()
    assert stored is not None
    assert all(stored[0][key] != growing.trigger.definition.model_dump(mode="json")[key] for key in fields)


def test_a_changed_workflow_takes_effect_with_the_next_batch(stack: LocalStack, topics: Topics, name: str) -> None:
    topics.create(name)
    topics.produce(name, ONE)
    trigger = InProcessTrigger(stack, name, linger=1.0, workflow=name)
    growing = Growing(trigger, trigger.batch())
    ordered = WorkflowDefinition.model_validate({"name": name, "callable": "json:loads", "ordering_key": "key"})

    def changed(rounds: int) -> None:
        topics.produce(name, ONE)
        if rounds == 1:
            workflows.register(growing.database, ordered)

    growing.attempt(changed)
    assert growing.rounds == [f"{name} 0 [1, 2)"]


def test_growth_ends_when_the_lease_is_closed(growing: Growing, topics: Topics, name: str) -> None:
    def close(rounds: int) -> None:
        topics.produce(name, ONE)
        if rounds == 1:
            batches.close_lease(growing.database, growing.batch_id)

    growing.attempt(close)
    assert growing.rounds == [f"{name} 0 [1, 2)"]


def test_a_run_of_another_trigger_ends_the_lease_of_no_batch(
    connection: Connection, growing: Growing, stack: LocalStack, name: str
) -> None:
    other = InProcessTrigger(stack, f"{name}-other", topics=[name])
    with pytest.raises(ForeignBatchError), other.begun(growing.batch_id):
        pass
    assert batches.last_plan(connection, name).is_open


def test_an_attempt_that_a_newer_one_has_fenced_adds_nothing(growing: Growing, topics: Topics, name: str) -> None:
    def fence(_: int) -> None:
        topics.produce(name, ONE)
        positions.take_epoch(growing.database, growing.batch_id)

    growing.attempt(fence)
    assert growing.rounds == []


def test_the_listener_leaves_free_partitions_to_a_batch_that_grows_and_plans_them_once_its_lease_has_expired(
    connection: Connection, growing: Growing, topics: Topics, name: str
) -> None:
    planned: list[str] = []

    def plan(rounds: int) -> None:
        if rounds:
            return
        topics.produce(name, TEN, 1)
        assert batches.renew_lease(growing.database, growing.batch_id, 1)
        assert growing.trigger.plan().batch_id is None
        growing.database.execute("UPDATE workorders.kafka_batches SET open_until = now() WHERE open_until IS NOT NULL")
        planned.append(growing.trigger.plan().label)
        topics.produce(name, ONE, 0)

    growing.attempt(plan)
    assert planned == [f"{name} 1 [0, 10)"]
    assert growing.rounds == [f"{name} 0 [1, 2)"], "the older batch continues, without what the listener planned"


def test_a_younger_batch_leaves_the_growth_to_the_older_one(growing: Growing, topics: Topics, name: str) -> None:
    topics.produce(name, ONE, 1)
    growing.database.execute("UPDATE workorders.kafka_batches SET open_until = now() WHERE open_until IS NOT NULL")
    younger = growing.trigger.batch()
    growing.database.execute(
        "UPDATE workorders.kafka_batches SET open_until = now() + interval '1 min' WHERE id = %s", (growing.batch_id,)
    )
    other = Growing(growing.trigger, younger)
    other.attempt(produce_once(topics, name, 1))
    assert other.rounds == []


def test_a_topic_that_the_file_does_not_name_any_more_is_not_read(stack: LocalStack, topics: Topics, name: str) -> None:
    gone = f"{name}-gone"
    for topic in (name, gone):
        topics.create(topic)
        topics.produce(topic, ONE)
    InProcessTrigger(stack, name, topics=[name, gone]).until_idle()
    trigger = InProcessTrigger(stack, name, topics=[name], linger=1.0)
    topics.produce(name, ONE)
    growing = Growing(trigger, trigger.batch())

    def arrive(rounds: int) -> None:
        for topic in () if rounds else (gone, name):
            topics.produce(topic, ONE)

    growing.attempt(arrive)
    assert growing.rounds == [f"{name} 0 [2, 3)"]


def test_a_topic_that_is_deleted_while_a_batch_grows_ends_the_growth_of_no_other(
    stack: LocalStack, topics: Topics, name: str
) -> None:
    gone = f"{name}-gone"
    for topic in (name, gone):
        topics.create(topic)
        topics.produce(topic, ONE)
    trigger = InProcessTrigger(stack, name, topics=[name, gone], linger=2.0)
    growing = Growing(trigger, trigger.batch())

    def arrive(rounds: int) -> None:
        if rounds == 1:
            topics.delete(gone)
        if rounds < 3:
            topics.produce(name, ONE)

    growing.attempt(arrive)
    assert growing.rounds == [f"{name} 0 [1, 2)", f"{name} 0 [2, 3)", f"{name} 0 [3, 4)"]


def test_ranges_are_added_in_virtual_partitions(
    connection: Connection, stack: LocalStack, topics: Topics, name: str
) -> None:
    topics.create(name)
    topics.produce(name, ONE)
    trigger = InProcessTrigger(stack, name, linger=1.0, virtual_partitions=2)
    growing = Growing(trigger, trigger.batch())
    growing.attempt(lambda rounds: None if rounds else topics.produce(name, [b"{}"] * 2000))
    assert growing.rounds == [f"{name} 0 [1, 1001) of [1, 2001), {name} 0 [1001, 2001) of [1, 2001)"]
    assert loaded(connection, growing).label == f"{name} 0 [0, 2001)"


def test_a_partition_whose_ledger_has_a_higher_epoch_joins_a_batch(
    connection: Connection, growing: Growing, topics: Topics, name: str
) -> None:
    connection.execute("UPDATE workorders.kafka_ledger SET epoch = 900 WHERE partition = 1 AND topic = %s", (name,))
    connection.commit()
    growing.attempt(produce_once(topics, name, 1))
    assert growing.rounds == [f"{name} 1 [0, 10)"]
    assert [range_.created for range_ in loaded(connection, growing).finished] == [1, 10]
    query = "SELECT epoch FROM workorders.kafka_ledger WHERE partition = 1 AND topic = %s"
    assert connection.execute(query, (name,)).fetchall() == [(901,)], "an attempt of epoch 900 stays fenced"
