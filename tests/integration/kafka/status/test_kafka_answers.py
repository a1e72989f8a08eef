from collections.abc import Mapping
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.topics import Topics
from workorders.kafka.client.settings import open_admin
from workorders.kafka.status import kafka_answers
from workorders.kafka.status.kafka_answers import KafkaAnswer, KafkaAnswers, Question

pytestmark = pytest.mark.integration


@pytest.fixture
def question(topics: Topics, name: str) -> Question:
    topics.create(name)
    return Question("kafka_default", (name,), frozenset(), None)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The connections for which a client was opened."""
    found: list[str] = []

    def open_noted(connection_id: str, *given: Any, **options: Any) -> Any:
        found.append(connection_id)
        return open_admin(connection_id, *given, **options)

    monkeypatch.setattr(kafka_answers, "open_admin", open_noted)
    return found


def end(answer: KafkaAnswer) -> int:
    assert answer.logs is not None, answer.problem
    return answer.logs[0].high_watermark


def test_an_answer_is_kept_for_those_who_ask_next(stack: LocalStack, topics: Topics, question: Question) -> None:
    kept = KafkaAnswers(lambda _: stack.kafka_settings, kept_seconds=60)
    asked_again = KafkaAnswers(lambda _: stack.kafka_settings)
    assert [end(answers.ask([question])[question]) for answers in (kept, asked_again)] == [0, 0]
    topics.produce(question.topics[0], [b"{}"])
    assert [end(answers.ask([question])[question]) for answers in (kept, asked_again)] == [0, 1]


def test_a_client_stays_until_its_settings_change(stack: LocalStack, question: Question, opened: list[str]) -> None:
    settings: Mapping[str, Any] = stack.kafka_settings
    answers = KafkaAnswers(lambda _: settings)
    for _ in range(3):
        assert end(answers.ask([question])[question]) == 0
    assert len(opened) == 1
    settings = {**settings, "client.id": "other"}
    assert end(answers.ask([question])[question]) == 0
    assert len(opened) == 2


def test_the_group_is_asked_only_if_it_is_named(stack: LocalStack, name: str, question: Question) -> None:
    answers = KafkaAnswers(lambda _: stack.kafka_settings)
    of_group = Question(question.kafka_connection, question.topics, frozenset(), f"workorders-{name}")
    found = answers.ask([question, of_group])
    assert not found[question].committed
    assert list(found[of_group].committed.values()) == [None]
