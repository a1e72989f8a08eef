"""Kafka's answers about the topics and the consumer group of a trigger, for people who look at them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
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
class KafkaSource:
    """The needed fields of a stored trigger, whose definition an older version of this package may have written."""

    name: str
    workflow: str
    consumer_group: str
    kafka_connection: str
    topics: tuple[str, ...]
    """Topics and patterns of the definition."""


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


@dataclass(frozen=True, slots=True)
class KafkaAnswers:
    """Asks Kafka; threads may share it."""

    settings_of: Callable[[str], Mapping[str, Any]]
    """Returns librdkafka settings by the id of a Kafka connection, and may raise a ConfigurationError. It is called
    each time, so that a changed connection counts."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """Limit of each request."""
    _clients: dict[str, tuple[Mapping[str, str], "KafkaAdmin"]] = field(default_factory=dict, init=False)

    def ask(self, sources: Sequence[tuple[KafkaSource, set[str]]], *, with_groups: bool) -> list[KafkaAnswer]:
        """Return the answer about each trigger; one that failed names its problem.

        All clusters are asked at the same time.

        Args:
            sources: the triggers, each with the topics of its ledger, which its definition may no longer name.
            with_groups: whether to ask about consumer groups, which takes a connection to the coordinator of each.
        """
        clusters = {name: self._client(name) for name in {source.kafka_connection for source, _ in sources}}

        async def ask_all() -> list[KafkaAnswer]:
            questions = (
                _ask(clusters[source.kafka_connection], source, known_topics, with_groups=with_groups)
                for source, known_topics in sources
            )
            return await asyncio.gather(*questions)

        return asyncio.run(ask_all())

    def _client(self, connection_id: str) -> "KafkaAdmin | ConfigurationError":
        try:
            extra = self.settings_of(connection_id)
            settings = client_settings(extra)  # with the certificates of now, which files may hold
            used, client = self._clients.get(connection_id, (None, None))
            if client is None or used != settings:
                client = open_admin(connection_id, lambda _: extra, timeout_seconds=self.timeout_seconds)
                self._clients[connection_id] = settings, client
        except ConfigurationError as error:
            return error  # the ledger is shown anyway
        return client


async def _ask(
    cluster: "KafkaAdmin | ConfigurationError", source: KafkaSource, known_topics: set[str], *, with_groups: bool
) -> KafkaAnswer:
    if isinstance(cluster, ConfigurationError):
        return KafkaAnswer(problem=str(cluster))
    answer = KafkaAnswer()
    try:
        described = await cluster.partitions([*source.topics, *known_topics])
        found = await cluster.offsets(described.found)
        errors = {**described.errors, **found.errors}
        answer = KafkaAnswer(found.found, errors=errors, problem=_problem(source, errors))
        if with_groups:
            committed = await cluster.committed(source.consumer_group, [log.partition for log in found.found])
            answer = replace(answer, committed=committed.found)
    except WorkOrdersError as error:
        return replace(answer, problem=str(error))
    return answer


def _problem(source: KafkaSource, errors: Mapping[Place, WorkOrdersError]) -> str | None:
    """Return what Kafka did not answer; a topic that only the ledger names may well be gone."""
    missing = [topic for (topic, _), error in errors.items() if isinstance(error, UnknownTopicError)]
    sentences = [
        f"{topic}{'' if number is None else f' {number}'}: {error}"
        for (topic, number), error in errors.items()
        if topic not in missing
    ]
    named = [topic for topic in missing if topic in source.topics]
    if named:
        sentences.append(f"Kafka does not have the topic {', '.join(named)}.")
    return " ".join(sentences) or None
