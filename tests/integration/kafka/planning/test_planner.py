"""Planning against a real broker and a real Postgres, alone and against rivals."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from local_stack.stack import LocalStack
from support.definitions import define
from support.groups import commit
from support.in_process_trigger import decided
from support.ingesting import attempt, no_proof, same_log
from support.topics import Topics
from support.work_orders import accepted_range
from workorders.core import triggers
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.requests import Answers
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import AnotherClusterError, DecisionRefusedError, UnknownTopicError
from workorders.kafka.ingest.log_checks import check_batch
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import batches, positions
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import Partition, PartitionOffsets, Position
from workorders.kafka.planning.planner import Plan, first_offsets, plan_batch
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest, remove_topic

pytestmark = pytest.mark.integration

Planner = Callable[..., Plan]

TEN = [b"{}"] * 10


class PlannerDiedError(Exception):
    """The planner's process dies."""


class InterruptedCluster(KafkaAdmin):
    """A cluster that is asked for its offsets, and something happens before the planner has the answer."""

    def __init__(self, stack: LocalStack, happens: Callable[[], object]) -> None:
        super().__init__(client_settings(stack.kafka_settings))
        self._happens = happens

    async def offsets(self, partitions: Sequence[Partition]) -> Answers[list[PartitionOffsets]]:
        answer = await super().offsets(partitions)
        with ThreadPoolExecutor(1) as pool:  # it may ask its own questions, which needs another event loop
            pool.submit(self._happens).result(60)
        return answer


@pytest.fixture
def plan(stack: LocalStack, cluster: KafkaAdmin) -> Planner:
    """Plans on a separate connection, as a task does."""

    def planned(definition: KafkaTriggerDefinition, asked: KafkaAdmin = cluster) -> Plan:
        with connect(stack.database_url) as own:
            return run(plan_batch(own, asked, definition))

    return planned


def ingest_all(stack: LocalStack, connection: Connection, batch_id: int) -> None:
    """Ingest a batch of messages without gaps, without Spark."""
    for number, range_ in enumerate(batches.load(connection, batch_id).ranges):
        connection.commit()
        with connect(stack.database_url) as own:
            items = accepted_range(stream_name(range_.range.partition), range_.range.start, range_.range.end)
            ingest(own, attempt(connection, batch_id, number), items, no_proof, same_log)


def labels(planned: Plan) -> list[tuple[int, int, int]]:
    return [(range_.partition.partition, range_.start, range_.end) for range_ in planned.ranges]


def begins(connection: Connection, name: str) -> dict[int, int]:
    connection.rollback()
    return {
        partition.partition: position.next_offset
        for partition, position in positions.positions(connection, name).items()
    }


def test_the_first_plan_writes_down_where_reading_begins_and_what_is_read_first(
    connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name, partitions=2)
    topics.produce(name, TEN)
    planned = plan(define(name))
    assert labels(planned) == [(0, 0, 10)]
    assert begins(connection, name) == {0: 0, 1: 0}
    assert planned.recorded == [f"{name} {number} is read from offset 0 on" for number in range(2)]
    assert planned.batch_id is not None
    batch = batches.load(connection, planned.batch_id)
    assert [range_.range for range_ in batch.ranges] == list(planned.ranges)
    assert batch.trigger == planned.trigger == triggers.find(connection, name)
    assert batch.definition == define(name).model_dump(mode="json")


def test_virtual_partitions_of_a_workflow_that_needs_order_are_refused_and_nothing_is_recorded(
    connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name)
    topics.produce(name, TEN)
    ordered = WorkflowDefinition.model_validate({"name": name, "callable": "shop:ship", "ordering_key": "key"})
    with pytest.raises(ConfigurationError, match="has the ordering_key key and virtual partitions are written in any"):
        plan(define(name, workflow=name, virtual_partitions=2).with_workflow(ordered))
    assert begins(connection, name) == {}
    planned = plan(define(name, workflow=name).with_workflow(ordered))
    assert planned.trigger.ordering_key == "key"
    with pytest.raises(ConfigurationError, match="has the ordering_key key and virtual partitions are written in any"):
        plan(define(name, workflow=name, virtual_partitions=2))


@pytest.mark.parametrize(
    ("policy", "begin"), [("earliest", 0), ("latest", 10), ("committed", 4), (1_600_000_007_000, 7)]
)
def test_every_policy_is_resolved_before_anything_is_read(
    connection: Connection,
    cluster: KafkaAdmin,
    topics: Topics,
    plan: Planner,
    *,
    name: str,
    policy: str | int,
    begin: int,
) -> None:
    definition = define(name, starting_offsets=policy)
    topics.create(name)
    for second in range(10):
        topics.produce(name, [b"{}"], timestamp_ms=1_600_000_000_000 + 1000 * second)
    (partition,) = run(cluster.partitions([name])).require()
    commit(cluster, definition.consumer_group, {partition: 4})
    first = plan(definition)
    assert begins(connection, name) == {0: begin}
    assert labels(first) == ([(0, begin, 10)] if begin < 10 else [])


def test_the_group_is_never_read_again(
    stack: LocalStack, connection: Connection, cluster: KafkaAdmin, topics: Topics, plan: Planner, *, name: str
) -> None:
    definition = define(name, starting_offsets="committed")
    topics.create(name)
    topics.produce(name, TEN)
    first = plan(definition)
    assert first.batch_id is not None
    ingest_all(stack, connection, first.batch_id)
    commit(cluster, definition.consumer_group, {first.ranges[0].partition: 2})
    assert plan(definition).batch_id is None
    commit(cluster, definition.consumer_group, {first.ranges[0].partition: 900})
    topics.produce(name, TEN)
    assert labels(plan(definition)) == [(0, 10, 20)]


def test_batches_one_after_the_other_take_every_offset_once(
    stack: LocalStack, connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name, partitions=2)
    topics.produce(name, TEN, partition=0)
    topics.produce(name, TEN[:3], partition=1)
    definition = define(name, max_messages=5)
    taken: dict[int, list[int]] = {0: [], 1: []}
    while (planned := plan(definition)).batch_id is not None:
        assert sum(range_.end - range_.start for range_ in planned.ranges) <= 5
        for number, start, end in labels(planned):
            taken[number] += range(start, end)
        ingest_all(stack, connection, planned.batch_id)
    assert taken == {0: list(range(10)), 1: list(range(3))}


def test_a_partition_whose_batch_is_unfinished_is_left_alone_and_the_others_continue(
    topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name, partitions=2)
    topics.produce(name, TEN, partition=0)
    assert labels(plan(define(name))) == [(0, 0, 10)]
    topics.produce(name, TEN, partition=0)
    topics.produce(name, TEN, partition=1)
    assert labels(plan(define(name))) == [(1, 0, 10)]
    assert plan(define(name)).batch_id is None


def test_planners_at_once_take_turns_and_plan_every_partition_once(
    stack: LocalStack, connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name, partitions=3)
    for partition in range(3):
        topics.produce(name, TEN, partition=partition)
    barrier = Barrier(4)

    def race(_: int) -> Plan:
        cluster = InterruptedCluster(stack, lambda: barrier.wait(30))
        return plan(define(name), cluster)

    with ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(race, range(4)))
    assert sorted(label for planned in plans for label in labels(planned)) == [(0, 0, 10), (1, 0, 10), (2, 0, 10)]
    assert begins(connection, name) == {0: 0, 1: 0, 2: 0}


def test_of_two_first_planners_the_one_that_writes_first_decides_where_reading_begins(
    stack: LocalStack, connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    """`latest` means another offset to each of them; the second must not skip what came in between."""
    topics.create(name)
    definition = define(name, starting_offsets="latest")

    def first_planner() -> None:
        plan(definition)
        topics.produce(name, TEN)

    # The second has seen an empty topic before the first wrote; it may find too little, and never skip.
    assert plan(definition, InterruptedCluster(stack, first_planner)).batch_id is None
    assert begins(connection, name) == {0: 0}
    assert labels(plan(definition)) == [(0, 0, 10)]


def test_a_planner_that_dies_between_first_offsets_and_batch_leaves_nothing_and_may_run_again(
    connection: Connection, topics: Topics, plan: Planner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    topics.produce(name, TEN)

    def dies(*_: object, **__: object) -> int:
        raise PlannerDiedError

    with monkeypatch.context() as patched:
        patched.setattr(batches, "create", dies)
        with pytest.raises(PlannerDiedError):
            plan(define(name))
    assert begins(connection, name) == {}
    assert labels(plan(define(name))) == [(0, 0, 10)]


def test_a_new_partition_is_read_from_its_first_offset(
    connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    definition = define(name, starting_offsets="latest")
    topics.create(name)
    plan(definition)
    topics.grow(name, 2)
    topics.produce(name, TEN, partition=1)
    assert labels(plan(definition)) == [(1, 0, 10)]


@pytest.mark.parametrize("form", ["{}-a", "^{}-.*"])
@pytest.mark.parametrize("policy", ["latest", "committed", 1_600_000_999_000])
def test_a_topic_that_was_created_after_the_first_poll_is_read_from_its_first_offset(
    topics: Topics, plan: Planner, *, name: str, form: str, policy: str | int
) -> None:
    definition = define(name, topics=[form.format(name)], starting_offsets=policy)
    assert plan(definition).batch_id is None
    topics.create(f"{name}-a")
    topics.produce(f"{name}-a", TEN)
    assert labels(plan(definition)) == [(0, 0, 10)]


def test_a_topic_that_is_added_to_a_trigger_begins_by_policy(topics: Topics, plan: Planner, name: str) -> None:
    topics.create(name)
    topics.create(f"{name}-added")
    topics.produce(f"{name}-added", TEN)
    assert plan(define(name, starting_offsets="latest")).batch_id is None
    both = define(name, topics=[name, f"{name}-added"], starting_offsets="latest")
    assert plan(both).batch_id is None
    topics.produce(f"{name}-added", TEN)
    assert labels(plan(both)) == [(0, 10, 20)]


def test_of_two_first_polls_the_one_before_the_topic_existed_decides_if_it_writes_first(
    stack: LocalStack, connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    missing = f"{name}-a"
    definition = define(name, topics=[name, missing], starting_offsets="latest")
    topics.create(name)
    rivals = [lambda: plan(definition)]

    class Late(KafkaAdmin):
        """A cluster in which the topic is created, with messages, after a rival has polled it."""

        async def partitions(self, subscriptions: Sequence[str]) -> Answers[list[Partition]]:
            for rival in rivals:
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(rival).result(60)
                topics.create(missing)
                topics.produce(missing, TEN)
            return await super().partitions(subscriptions)

    assert plan(definition, Late(client_settings(stack.kafka_settings))).batch_id is None
    assert labels(plan(definition)) == [(0, 0, 10)]
    connection.rollback()
    assert positions.subscriptions(connection, name) == {name, missing}


def test_a_batch_ends_before_an_open_transaction(topics: Topics, plan: Planner, name: str) -> None:
    topics.create(name)
    topics.produce(name, TEN)
    with topics.open_transaction(name, TEN):
        topics.produce(name, TEN)
        assert labels(plan(define(name))) == [(0, 0, 10)]


def test_a_recreated_topic_gets_a_batch_with_the_old_topics_id(
    stack: LocalStack, connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name)
    topics.produce(name, TEN)
    first = plan(define(name))
    assert first.batch_id is not None
    ingest_all(stack, connection, first.batch_id)
    topics.delete(name)
    topics.create(name)
    topics.produce(name, TEN)
    second = plan(define(name))
    assert labels(second) == [(0, 10, 11)]
    assert second.ranges[0].partition == first.ranges[0].partition


def test_messages_deleted_unread_get_a_batch_that_names_them(topics: Topics, plan: Planner, name: str) -> None:
    topics.create(name)
    plan(define(name))
    topics.produce(name, TEN)
    topics.delete_before(name, 5)
    assert labels(plan(define(name))) == [(0, 0, 10)]


def test_a_rate_limit_leaves_the_rest_for_later(topics: Topics, plan: Planner, name: str) -> None:
    topics.create(name, partitions=2)
    for partition in (0, 1):
        topics.produce(name, TEN, partition=partition)
    definition = define(name, rate_limit_per_second=0.001)
    assert sum(end - start for _, start, end in labels(plan(definition))) == 1
    assert plan(definition).batch_id is None


def test_an_unknown_topic_is_named_and_the_others_are_recorded(
    connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name)
    missing = f"{name}-not-there"
    planned = plan(define(name, topics=[name, missing]))
    assert list(begins(connection, name)) == [0]
    assert [type(planned.errors[missing, None]), planned.stalled] == [UnknownTopicError, ()]


def test_a_planner_whose_look_at_the_log_is_old_finds_no_contradiction(
    stack: LocalStack, connection: Connection, topics: Topics, plan: Planner, name: str
) -> None:
    """Another planner's batch was ingested since it looked, so the ledger is ahead of the log that it saw."""
    topics.create(name)
    plan(define(name))

    def others_continue() -> None:
        topics.produce(name, TEN)
        rival = plan(define(name))
        assert rival.batch_id is not None
        with connect(stack.database_url) as own:
            ingest_all(stack, own, rival.batch_id)

    assert labels(plan(define(name), InterruptedCluster(stack, others_continue))) == []


def test_another_cluster_is_named_and_neither_planned_nor_ingested(
    stack: LocalStack, connection: Connection, cluster: KafkaAdmin, topics: Topics, *, plan: Planner, name: str
) -> None:
    topics.create(name)
    topics.produce(name, [b"{}"])
    batch_id = plan(define(name)).batch_id
    assert batch_id is not None
    connection.execute(
        "UPDATE workorders.kafka_ledger SET cluster_id = 'before', topic_id = 'x' WHERE topic = %s", [name]
    )
    connection.execute("UPDATE workorders.kafka_ranges SET topic_id = 'x' WHERE topic = %s", [name])
    connection.commit()
    sentence = f"leads to another cluster, {run(cluster.cluster_id())}, and the ledger follows before. Nothing was"
    with pytest.raises(AnotherClusterError, match=sentence):
        plan(define(name))
    (error,) = run(check_batch(cluster, batches.load(connection, batch_id), 1)).unreadable.values()
    assert sentence in str(error)
    connection.rollback()
    decided(stack, cluster, DecisionRequest(DecisionKind.ACCEPT_TOPIC, name, name, (0,), 1))
    topics.produce(name, [b"{}"])
    assert [str(range_) for range_ in plan(define(name)).ranges] == [f"{name} 0 [1, 2)"]


def test_a_deleted_topic_without_a_batch_is_removed_from_the_ledger(
    connection: Connection, cluster: KafkaAdmin, topics: Topics, plan: Planner, name: str
) -> None:
    topics.create(name)
    plan(define(name))
    with pytest.raises(DecisionRefusedError, match="Kafka has the topic"):
        remove_topic(connection, cluster, name, name)
    topics.delete(name)
    connection.execute("UPDATE workorders.kafka_ledger SET cluster_id = 'other' WHERE topic = %s", [name])
    connection.commit()
    with pytest.raises(AnotherClusterError):
        remove_topic(connection, cluster, name, name)
    connection.execute("UPDATE workorders.kafka_ledger SET cluster_id = NULL WHERE topic = %s", [name])
    connection.commit()
    assert remove_topic(connection, cluster, name, name) == 1
    assert begins(connection, name) == {}
    with pytest.raises(DecisionRefusedError, match="the ledger has no topic"):
        remove_topic(connection, cluster, name, name)


@pytest.fixture
def filled(topics: Topics, name: str) -> str:
    """Two partitions: [2, 6) in the first, of the seconds 2 to 5; nothing in the second."""
    topics.create(name, partitions=2)
    for second in range(6):
        topics.produce(name, [b"{}"], timestamp_ms=1_600_000_000_000 + 1000 * second)
    topics.delete_before(name, 2)
    return name


def resolved(cluster: KafkaAdmin, name: str, starting_offsets: str | int, known: int | None = None) -> dict[int, int]:
    """Return the first offset of each partition, when the ledger knows only the partition `known`."""

    async def resolve() -> dict[int, int]:
        partitions = (await cluster.partitions([name])).require()
        logs = (await cluster.offsets(partitions)).require()
        ledger = {
            partition: Position(partition, 0, busy=False) for partition in partitions if partition.partition == known
        }
        definition = define(name, starting_offsets=starting_offsets)
        found = await first_offsets(cluster, definition, logs, ledger, frozenset())
        return {partition.partition: offset for partition, offset in found.require().items()}

    return run(resolve())


def test_latest_begins_at_the_last_stable_offset_so_that_an_open_transaction_is_not_skipped(
    cluster: KafkaAdmin, topics: Topics, filled: str
) -> None:
    with topics.open_transaction(filled, [b"{}"]):
        assert resolved(cluster, filled, "latest") == {0: 6, 1: 0}


def test_group_begins_at_the_group_offset_and_at_the_earliest_offset_where_there_is_none(
    cluster: KafkaAdmin, filled: str
) -> None:
    assert resolved(cluster, filled, "committed") == {0: 2, 1: 0}
    (first, _) = run(cluster.partitions([filled])).require()
    commit(cluster, define(filled).consumer_group, {first: 5})
    assert resolved(cluster, filled, "committed") == {0: 5, 1: 0}


@pytest.mark.parametrize("policy", ["latest", "committed", 1_600_000_999_000])
def test_a_new_partition_of_a_known_topic_begins_at_its_first_offset_whatever_the_policy(
    cluster: KafkaAdmin, filled: str, policy: str | int
) -> None:
    assert resolved(cluster, filled, policy, known=1) == {0: 2}
