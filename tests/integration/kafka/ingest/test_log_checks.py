"""The proof that a range was read to its end, against every kind of end that a log has."""

import time

import pytest
from confluent_kafka import KafkaException

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.topics import Topics
from workorders.kafka.client import range_consumer
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import IncompleteReadError, KafkaUnavailableError
from workorders.kafka.ingest.log_checks import verify_range_end
from workorders.kafka.partitions import OffsetRange, Partition

pytestmark = pytest.mark.integration

THREE = [b"{}"] * 3


class Log:
    """A topic of one partition, and the proof about it."""

    def __init__(self, stack: LocalStack, topics: Topics, cluster: KafkaAdmin, name: str) -> None:
        self.topics = topics
        self.name = topics.create(name)
        self._settings = client_settings(stack.kafka_settings)
        (self.partition,) = run(cluster.partitions([name])).require()

    def prove(self, from_offset: int, end: int) -> None:
        verify_range_end(self._settings, OffsetRange(self.partition, 0, end), from_offset)


@pytest.fixture
def log(stack: LocalStack, topics: Topics, cluster: KafkaAdmin, name: str) -> Log:
    return Log(stack, topics, cluster, name)


def test_a_commit_marker_at_the_end_is_no_message(log: Log) -> None:
    log.topics.produce_committed(log.name, THREE)
    log.prove(3, 4)


def test_an_aborted_tail_is_invisible(log: Log) -> None:
    log.topics.produce(log.name, THREE)
    log.topics.produce_aborted(log.name, THREE)
    log.prove(3, 7)
    log.topics.produce(log.name, THREE)
    log.prove(3, 7)


def test_a_range_of_nothing_but_aborted_messages_is_invisible(log: Log) -> None:
    log.topics.produce_aborted(log.name, THREE)
    log.topics.produce_aborted(log.name, THREE)
    log.prove(0, 8)


@pytest.mark.parametrize("from_offset", [0, 1, 2])
def test_a_visible_message_in_the_range_proves_that_the_reader_stopped_early(log: Log, from_offset: int) -> None:
    log.topics.produce(log.name, THREE)
    with pytest.raises(IncompleteReadError) as raised:
        log.prove(from_offset, 3)
    assert str(raised.value) == (
        f"{log.name} 0 [0, 3): the reader ended too early, because there may be a message at offset {from_offset}; "
        f"nothing was committed there. [WO-READ-INCOMPLETE]"
    )


@pytest.mark.parametrize("end", [7, 5])
def test_a_visible_message_after_aborted_ones_is_found_also_in_the_last_place_of_the_range(log: Log, end: int) -> None:
    log.topics.produce_aborted(log.name, THREE)
    log.topics.produce(log.name, THREE)
    with pytest.raises(IncompleteReadError, match="there may be a message at offset 4;"):
        log.prove(0, end)


def test_a_message_that_a_producer_compressed_with_earlier_ones_is_no_earlier_one(log: Log) -> None:
    """The broker answers with the whole compressed set, which begins before the offset that was asked for."""
    log.topics.produce(log.name, [b"{}"] * 100)
    with pytest.raises(IncompleteReadError, match="there may be a message at offset 50;"):
        log.prove(50, 100)
    log.topics.produce_aborted(log.name, THREE)
    log.prove(100, 104)


def test_a_log_that_no_longer_has_the_place_proves_nothing(log: Log) -> None:
    log.topics.produce(log.name, [b"{}"] * 6)
    log.topics.delete_before(log.name, 5)
    with pytest.raises(KafkaException):
        log.prove(3, 4)


def test_a_log_cut_before_the_place_proves_nothing(log: Log) -> None:
    log.topics.produce(log.name, THREE)
    with pytest.raises(KafkaException):
        log.prove(5, 9)


@pytest.mark.parametrize("place", [0, 3])
def test_the_end_of_a_log_that_was_cut_inside_the_range_proves_nothing(log: Log, place: int) -> None:
    """A broker that lost its tail, or a topic re-created while Spark read it."""
    log.topics.produce(log.name, THREE[:place])
    with pytest.raises(IncompleteReadError, match=rf"\[0, 9\): .* at offset {place};"):
        log.prove(place, 9)


def test_a_broker_that_is_away_proves_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(range_consumer, "TIMEOUT_SECONDS", 1.0)
    begin = time.monotonic()
    with pytest.raises(KafkaUnavailableError, match=rf"^{name} 0 \[0, 9\): Kafka did not answer within 1 s"):
        verify_range_end(
            {"bootstrap.servers": f"127.0.0.1:{free_port()}"}, OffsetRange(Partition(name, 0, "id"), 0, 9), 3
        )
    assert time.monotonic() - begin < 10


def test_an_open_transaction_inside_the_range_proves_nothing(log: Log) -> None:
    """No plan ends behind the last stable offset; should one, its messages are neither read nor given up."""
    log.topics.produce(log.name, THREE)
    with log.topics.open_transaction(log.name, THREE), pytest.raises(IncompleteReadError, match="at offset 3;"):
        log.prove(3, 6)


def test_no_group_is_left_behind(log: Log, cluster: KafkaAdmin) -> None:
    log.topics.produce_committed(log.name, THREE)
    log.prove(3, 4)
    assert run(cluster.committed(range_consumer.GROUP_NEVER_JOINED, [log.partition])).require() == {log.partition: None}
