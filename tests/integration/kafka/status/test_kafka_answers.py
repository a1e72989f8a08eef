import gc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.topics import Topics
from workorders.kafka.client.settings import open_admin
from workorders.kafka.status import kafka_answers
from workorders.kafka.status.kafka_answers import KafkaAnswers, KafkaSource

pytestmark = pytest.mark.integration


@pytest.fixture
def source(topics: Topics, name: str) -> KafkaSource:
    topics.create(name)
    return KafkaSource(name, "admit", f"workorders-{name}", "kafka_default", (name,))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Weak references to the clients that were opened."""
    found: list[Any] = []

    def open_noted(connection_id: str, *given: Any, **options: Any) -> Any:
        client = open_admin(connection_id, *given, **options)
        found.append(weakref.ref(client))
        return client

    monkeypatch.setattr(kafka_answers, "open_admin", open_noted)
    return found


def end(answers: KafkaAnswers, source: KafkaSource) -> int:
    (answer,) = answers.ask([(source, set())], with_groups=False)
    assert answer.logs is not None, answer.problem
    return answer.logs[0].high_watermark


def test_kafka_is_asked_each_time(stack: LocalStack, topics: Topics, source: KafkaSource) -> None:
    answers = KafkaAnswers(lambda _: stack.kafka_settings)
    assert end(answers, source) == 0
    topics.produce(source.topics[0], [b"{}"])
    assert end(answers, source) == 1


def test_a_client_stays_until_its_settings_change(stack: LocalStack, source: KafkaSource, opened: list[Any]) -> None:
    settings: Mapping[str, Any] = stack.kafka_settings
    answers = KafkaAnswers(lambda _: settings)
    for _ in range(3):
        assert end(answers, source) == 0
    assert len(opened) == 1
    settings = {**settings, "client.id": "other"}
    assert end(answers, source) == 0
    gc.collect()
    assert [client() is None for client in opened] == [True, False]


@pytest.mark.parametrize("with_groups", [False, True])
def test_the_group_is_asked_only_if_that_is_wanted(
    stack: LocalStack, source: KafkaSource, *, with_groups: bool
) -> None:
    answers = KafkaAnswers(lambda _: stack.kafka_settings)
    (found,) = answers.ask([(source, set())], with_groups=with_groups)
    assert list(found.committed.values()) == ([None] if with_groups else [])
