import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.groups import commit, member
from support.topics import Topics
from workorders.kafka.client import requests
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import GroupCommitError, KafkaRefusedError, KafkaUnavailableError, UnknownTopicError
from workorders.kafka.partitions import Partition, PartitionOffsets

pytestmark = pytest.mark.integration

THREE = [b"{}"] * 3


def test_a_topic_that_does_not_exist_is_unknown(cluster: KafkaAdmin, topics: Topics, name: str) -> None:
    topics.create(name)
    with pytest.raises(UnknownTopicError, match=r"^Kafka at 127\.0\.0\.1:\d+ does not have the topic: "):
        run(cluster.partitions([name, f"{name}-not-there"])).require()


def test_a_wrong_password_is_a_refusal_and_no_broker_that_is_away(stack: LocalStack, topics: Topics, name: str) -> None:
    topics.create(name)
    right = stack.kafka.sasl_settings
    assert run(KafkaAdmin(client_settings(right)).partitions([name])).require()
    wrong = KafkaAdmin(client_settings({**right, "sasl.password": "wrong"}), timeout_seconds=10)
    with pytest.raises(
        KafkaRefusedError, match=r"^Kafka at 127\.0\.0\.1:\d+ refused the client: .*check the credentials"
    ):
        run(wrong.partitions([name])).require()


def test_a_regular_expression_matches_from_the_start_of_a_name(cluster: KafkaAdmin, topics: Topics, name: str) -> None:
    for topic in (f"{name}-a", f"{name}-b", f"x-{name}-c"):
        topics.create(topic)
    found = run(cluster.partitions([f"^{name}-.*"])).require()
    assert [partition.topic for partition in found] == [f"{name}-a", f"{name}-b"]


def test_a_regular_expression_may_match_nothing_and_never_matches_internal_topics(
    cluster: KafkaAdmin, topics: Topics, name: str
) -> None:
    topics.create(name)
    topics.produce_committed(name, THREE)  # makes __transaction_state
    assert run(cluster.partitions([f"^{name}-no-such-topic"])).require() == []
    assert all(not partition.topic.startswith("__") for partition in run(cluster.partitions(["^.*"])).require())


def test_the_last_stable_offset_stays_before_an_open_transaction_and_the_high_watermark_does_not(
    cluster: KafkaAdmin, topics: Topics, name: str
) -> None:
    topics.create(name)
    topics.produce(name, THREE)
    (partition,) = run(cluster.partitions([name])).require()
    with topics.open_transaction(name, THREE):
        topics.produce(name, THREE)
        assert run(cluster.offsets([partition])).require() == [PartitionOffsets(partition, 0, 3, 9)]
        assert run(cluster.last_stable_offsets([partition])).require() == {partition: 3}
    ended = 10  # the abort marker has an offset too
    assert wait_until(lambda: run(cluster.last_stable_offsets([partition])).require() == {partition: ended}, seconds=30)
    assert run(cluster.offsets([partition])).require() == [PartitionOffsets(partition, 0, ended, ended)]


def test_a_time_is_resolved_to_the_first_message_that_is_not_older(
    cluster: KafkaAdmin, topics: Topics, name: str
) -> None:
    topics.create(name, partitions=2)
    for timestamp in (1000, 2000, 3000):
        topics.produce(name, [b"{}"], timestamp_ms=timestamp)
    with_messages, empty = run(cluster.partitions([name])).require()
    for timestamp, offset in ((1, 0), (2000, 1), (2001, 2), (3001, None)):
        found = run(cluster.offsets_at([with_messages, empty], timestamp)).require()
        assert found == {with_messages: offset, empty: None}


def test_a_group_is_committed_forward_and_back_without_joining_it(
    cluster: KafkaAdmin, topics: Topics, name: str
) -> None:
    topics.create(name, partitions=2)
    first, second = run(cluster.partitions([name])).require()
    assert run(cluster.committed(name, [first, second])).require() == {first: None, second: None}
    for offset in (7, 3):
        commit(cluster, name, {first: offset})
        assert run(cluster.committed(name, [first, second])).require() == {first: offset, second: None}


def test_a_group_with_a_live_member_is_not_committed_and_the_partitions_are_named(
    stack: LocalStack, cluster: KafkaAdmin, topics: Topics, name: str
) -> None:
    topics.create(name, partitions=2)
    topics.produce(name, THREE)
    first, second = run(cluster.partitions([name])).require()
    with member(stack.kafka_settings, name, name), pytest.raises(GroupCommitError) as raised:
        run(cluster.commit(name, {first: 7, second: 9}))
    text = str(raised.value)
    assert text.startswith(f"Kafka refused the offsets of consumer group {name}: {name} 0: ")
    assert f", {name} 1: " in text
    assert text.endswith(
        "another consumer is in this group: stop it, or give the trigger another group. Kafka's "
        f"`kafka-consumer-groups.sh --bootstrap-server {stack.bootstrap_servers} --describe --members --group {name}` "
        "lists it. [WO-GROUP-COMMIT]"
    )
    assert run(cluster.committed(name, [second])).require() == {second: None}


def test_a_topic_that_is_gone_is_no_other_consumer(cluster: KafkaAdmin, topics: Topics, name: str) -> None:
    topics.create(name)
    (partition,) = run(cluster.partitions([name])).require()
    commit(cluster, name, {partition: 1})
    with pytest.raises(GroupCommitError) as raised:
        run(cluster.commit(name, {replace(partition, topic=f"{name}-gone"): 1}))
    assert "another consumer" not in str(raised.value)
    assert str(raised.value).startswith(f"Kafka refused the offsets of consumer group {name}: {name}-gone 0: ")


def test_an_unavailable_broker_is_reported_within_the_time_limit(name: str) -> None:
    away = KafkaAdmin({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, timeout_seconds=1.0)
    partition = Partition(name, 0, "id")
    for question in (
        away.partitions([name]),
        away.partitions([f"^{name}"]),
        away.offsets([partition]),
        away.committed(name, [partition]),
        away.commit(name, {partition: 1}),
    ):
        begin = time.monotonic()
        with pytest.raises(KafkaUnavailableError, match=r"^Kafka at 127\.0\.0\.1:\d+ did not answer: "):
            run(question)
        assert time.monotonic() - begin < 15


def test_a_question_about_a_partition_that_is_not_there_is_an_unknown_topic(
    stack: LocalStack, topics: Topics, name: str
) -> None:
    impatient = KafkaAdmin(client_settings(stack.kafka_settings), timeout_seconds=3.0)
    topics.create(name)
    with pytest.raises((UnknownTopicError, KafkaUnavailableError)):
        run(impatient.offsets([Partition(name, 5, "id")])).require()


class Watched:
    """A client that notes its requests, and refuses one that begins before the answers to the one before."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._open = list[Future[Any]]()
        self.asked = list[str]()

    def poll(self, seconds: float) -> int:
        return int(self._admin.poll(seconds))

    def __getattr__(self, request: str) -> Callable[..., Any]:
        assert all(answer.done() for answer in self._open), f"{request} began while {self.asked[-1]} had no answer"
        self.asked.append(request)

        def ask(*arguments: Any, **options: Any) -> Any:
            self._open = [Future()]
            answers = getattr(self._admin, request)(*arguments, **options)
            self._open = [*answers.values()] if isinstance(answers, dict) else [answers]
            if request == "list_topics":  # which blocks
                self._open = []
            return answers

        return ask


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    """Every client that is made from now on."""
    made = list[Watched]()

    def watch(kind: type[AdminClient], settings: dict[str, Any]) -> Watched:
        made.append(Watched(kind(settings)))
        return made[-1]

    monkeypatch.setattr(requests, "new_client", watch)
    return made


def test_no_client_is_asked_anything_while_it_has_a_request_since_librdkafka_may_end_the_process(
    stack: LocalStack, topics: Topics, name: str, watched: list[Watched]
) -> None:
    cluster = KafkaAdmin(client_settings(stack.kafka_settings))
    topics.create(name, partitions=3)
    partitions = run(cluster.partitions([name])).require()

    async def ask_at_once() -> None:
        await asyncio.gather(
            *(cluster.offsets(partitions) for _ in range(6)),
            *(cluster.partitions([name, f"^{name}"]) for _ in range(6)),
            cluster.cleanup_policy(name),
        )

    run(ask_at_once())
    assert 1 < len(watched) <= 4, "many questions have few connections"
    assert "list_offsets" not in {client.asked[0] for client in watched}, "what a new connection asks is still open"
    made = len(watched)
    for _ in range(3):
        run(cluster.offsets(partitions)).require()
    assert len(watched) == made, "clients are used again"


def test_a_client_is_replaced_before_it_forgets_a_topic(
    stack: LocalStack, topics: Topics, name: str, watched: list[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(name)
    cluster = KafkaAdmin(client_settings(stack.kafka_settings))
    run(cluster.partitions([name])).require()
    assert len(watched) == 1
    now = time.monotonic() + 601
    monkeypatch.setattr(time, "monotonic", lambda: now)
    run(cluster.partitions([name])).require()
    assert len(watched) == 2


def test_what_a_client_remembers_of_leaders_is_not_taken_for_an_error_of_the_cluster(
    cluster: KafkaAdmin, topics: Topics, name: str
) -> None:
    topics.create(name)
    (first,) = run(cluster.partitions([name])).require()
    assert run(cluster.last_stable_offsets([first])).require() == {first: 0}
    topics.grow(name, 2)
    both = [first, replace(first, partition=1)]
    assert run(cluster.last_stable_offsets(both)).require() == dict.fromkeys(both, 0)
