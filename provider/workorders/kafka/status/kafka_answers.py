"""Kafka's answers about the topics and the consumer group of a trigger, for people who look at them."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.kafka.client.settings import client_settings, open_admin
from workorders.kafka.exceptions import UnknownTopicError
from workorders.kafka.partitions import Partition, PartitionOffsets, Place

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin

TIMEOUT_SECONDS: Final = 5.0
"""A person waits for the answer, so the limit is shorter than a task's."""


@dataclass(frozen=True, slots=True)
class Question:
    """What Kafka is asked about one trigger."""

    kafka_connection: str
    topics: tuple[str, ...]
    """Topics and patterns of the definition."""
    known_topics: frozenset[str]
    """Topics of the ledger, which the definition may no longer name."""
    group: str | None
    """The consumer group; None to ask about the topics only, which takes no connection to the group's coordinator."""


@dataclass(frozen=True, slots=True)
class KafkaAnswer:
    """Kafka's answer about one trigger's topics."""

    logs: Sequence[PartitionOffsets] | None = None
    """The partitions that exist; None if Kafka did not answer."""
    committed: Mapping[Partition, int | None] = field(default_factory=dict)
    """The group's offsets; no entry if Kafka did not answer, None if the group has no offset."""
    errors: Mapping[Place, WorkOrdersError] = field(default_factory=dict)
    """Of the topics and partitions that Kafka could not answer for."""
    problem: str | None = None
    """What is unknown, and why."""


class KafkaAnswers:
    """Asks Kafka, and keeps clients and answers for those who ask next.

    Threads may share it. Two that ask the same at the same moment both ask Kafka: neither waits for the other.

    Args:
        settings_of: returns librdkafka settings by the id of a Kafka connection, and may raise a ConfigurationError. It
            is called each time, so that a changed connection counts.
        kept_seconds: how old an answer may be.
        timeout_seconds: limit of each request.
    """

    def __init__(
        self,
        settings_of: Callable[[str], Mapping[str, Any]],
        *,
        kept_seconds: float = 0.0,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._settings_of = settings_of
        self._kept_seconds = kept_seconds
        self._timeout_seconds = timeout_seconds
        self._clients: dict[str, tuple[Mapping[str, str], KafkaAdmin]] = {}
        self._answers: dict[Question, tuple[float, KafkaAnswer]] = {}

    def ask(self, questions: Collection[Question]) -> Mapping[Question, KafkaAnswer]:
        """Return the answers, asking all clusters at the same time; an answer that failed names its problem."""
        oldest = time.monotonic() - self._kept_seconds
        kept = {question: answer for question, (at, answer) in self._answers.copy().items() if at > oldest}
        missing = [question for question in dict.fromkeys(questions) if question not in kept]
        if not missing:
            return kept
        clusters = {name: self._client(name) for name in {question.kafka_connection for question in missing}}

        async def ask_all() -> list[KafkaAnswer]:
            return await asyncio.gather(*(_ask(clusters[asked.kafka_connection], asked) for asked in missing))

        found = dict(zip(missing, asyncio.run(ask_all()), strict=True))
        now = time.monotonic()
        self._answers = {
            **{question: entry for question, entry in self._answers.copy().items() if question in kept},
            **{question: (now, answer) for question, answer in found.items()},
        }
        return {**kept, **found}

    def _client(self, connection_id: str) -> "KafkaAdmin | ConfigurationError":
        try:
            extra = self._settings_of(connection_id)
            settings = client_settings(extra)  # with the certificates of now, which files may hold
            used, client = self._clients.get(connection_id, (None, None))
            if client is None or used != settings:
                client = open_admin(connection_id, lambda _: extra, timeout_seconds=self._timeout_seconds)
                self._clients[connection_id] = (settings, client)
        except ConfigurationError as error:
            return error  # the ledger is shown anyway
        return client


async def _ask(cluster: "KafkaAdmin | ConfigurationError", asked: Question) -> KafkaAnswer:
    if isinstance(cluster, ConfigurationError):
        return KafkaAnswer(problem=str(cluster))
    answer = KafkaAnswer()
    try:
        described = await cluster.partitions([*asked.topics, *asked.known_topics])
        found = await cluster.offsets(described.found)
        errors = {**described.errors, **found.errors}
        answer = KafkaAnswer(found.found, errors=errors, problem=_problem(asked, errors))
        if asked.group is not None:
            committed = await cluster.committed(asked.group, [log.partition for log in found.found])
            answer = replace(answer, committed=committed.found)
    except WorkOrdersError as error:
        return replace(answer, problem=str(error))
    return answer


def _problem(asked: Question, errors: Mapping[Place, WorkOrdersError]) -> str | None:
    """Return what Kafka did not answer; a topic that only the ledger names may well be gone."""
    missing = [topic for (topic, _), error in errors.items() if isinstance(error, UnknownTopicError)]
    sentences = [
        f"{topic}{'' if number is None else f' {number}'}: {error}"
        for (topic, number), error in errors.items()
        if topic not in missing
    ]
    named = [topic for topic in missing if topic in asked.topics]
    if named:
        sentences.append(f"Kafka does not have the topic {', '.join(named)}.")
    return " ".join(sentences) or None
