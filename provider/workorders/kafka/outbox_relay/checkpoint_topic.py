"""The topic of markers itself: made if it is not there, and refused where markers would not last in it."""

import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.outbox.store.settings import BUCKETS

_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1
_POLICY: Final = "cleanup.policy"
_COPIES: Final = 3
_UNKNOWN: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_FORBIDDEN: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


class MarkersTopicError(ConfigurationError):
    """Markers would not last in the topic that is there, or a shard has no place in it; nothing was sent."""

    error_code = "WO-CHECKPOINT-TOPIC"


def ready_topic(admin: AdminClient, topic: str) -> tuple[str, str]:
    """Make the topic if it is not there, and return the ids of its cluster and its own.

    Raises:
        KafkaUnavailableError: the cluster did not answer, or does not let us.
        MarkersTopicError: the topic has too few partitions, or is not compacted.
    """
    try:
        cluster = admin.describe_cluster(request_timeout=_SECONDS).result(_SECONDS)
        found = _described(admin, topic)
        if found is None:
            _create(admin, new_topic(topic, brokers=len(cluster.nodes)))
            found = _described_soon(admin, topic)
        policy = _policy(admin, topic)
    except KafkaException as error:
        raise KafkaUnavailableError(
            f"The topic {topic}, in which the outbox notes its batches, could not be looked up or made: "
            f"{error.args[0].str()}. Nothing was sent; make it with {BUCKETS} partitions and "
            f"{_POLICY}=compact, or let the relay do it."
        ) from error
    _refuse_unsafe(topic, len(found.partitions), policy)
    return str(cluster.cluster_id), str(found.topic_id)


def new_topic(topic: str, *, brokers: int) -> NewTopic:
    """Return the topic as it is made: a lost broker must not take it away, whatever a cluster's default is."""
    copies = min(_COPIES, brokers)
    safe = {"min.insync.replicas": "2"} if copies == _COPIES else {}
    return NewTopic(topic, BUCKETS, replication_factor=copies, config={_POLICY: "compact", **safe})


def _create(admin: AdminClient, wanted: NewTopic) -> None:
    try:
        admin.create_topics([wanted], operation_timeout=_SECONDS)[wanted.topic].result(_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _described(admin: AdminClient, topic: str) -> Any:
    try:
        # Not a producer's question for the topic, which could make one with the cluster's defaults.
        return admin.describe_topics(TopicCollection([topic]), request_timeout=_SECONDS)[topic].result(_SECONDS)
    except KafkaException as error:
        if error.args[0].code() in _UNKNOWN:
            return None
        raise


def _described_soon(admin: AdminClient, topic: str) -> Any:
    """Describe a topic that was just made, of which brokers hear one after the other."""
    deadline = time.monotonic() + _SECONDS
    while (found := _described(admin, topic)) is None:
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        time.sleep(_POLL_SECONDS)
    return found


def _policy(admin: AdminClient, topic: str) -> str | None:
    """Return how the topic is cleaned; None when we may not know."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        configuration = admin.describe_configs([resource], request_timeout=_SECONDS)[resource].result(_SECONDS)
    except KafkaException as error:
        if error.args[0].code() in _FORBIDDEN:
            return None
        raise
    return str(configuration[_POLICY].value)


def _refuse_unsafe(topic: str, partitions: int, policy: str | None) -> None:
    faults = []
    if partitions < BUCKETS:
        faults.append(f"has {partitions} partitions and needs {BUCKETS}, one for each shard that there can be")
    if policy not in {"compact", None}:
        faults.append(f"has {_POLICY}={policy} and needs compact: a marker that is deleted can let a batch come twice")
    if faults:
        raise MarkersTopicError(
            f"The topic {topic}, in which the outbox notes its batches, {' and '.join(faults)}. Nothing was sent; "
            f"mend the topic, or name another one in `markers_topic`."
        )
