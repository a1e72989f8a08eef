import pytest

from support.definitions import define
from support.groups import commit
from support.topics import Topics
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.partitions import Position
from workorders.kafka.planning.starting_offsets import first_offsets

pytestmark = pytest.mark.integration


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
