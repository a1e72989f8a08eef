"""The topic of markers: the last batch of each shard that Kafka has, written in the batch's own transaction.

Other programs may write to that topic, and may guess or copy every field of a marker. So each marker is signed with a
key that only Postgres stores. The relay ignores records without that signature. The epoch is signed and not compared:
signed markers of a higher epoch show that the database was restored to an earlier time.
"""

import hmac
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from workorders.kafka.client.broker_errors import LEADER_MOVES
from workorders.kafka.client.new_client import new_client
from workorders.kafka.client.range_consumer import GROUP_NEVER_JOINED
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.kafka.outbox_relay.checkpoint_topic import ready_topic

log: Final = logging.getLogger(__name__)

_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2
_FIRST_WINDOW: Final = 200
"""Offsets before the end that are read first: one marker takes two, with the transaction's own."""


_PASSING: Final = LEADER_MOVES | {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._TRANSPORT,
}


@dataclass(frozen=True, slots=True)
class Marker:
    """What stands in the topic of markers for a batch."""

    topic: str
    partition: int
    key: bytes
    value: bytes


class Markers:
    """The markers of one outbox. Each shard has a partition of its own, lest one wait for another's transaction."""

    def __init__(self, settings: Mapping[str, Any], topic: str, outbox_id: str, key: bytes) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._outbox_id = outbox_id
        self._signing_key = key
        self._admin = new_client(AdminClient, {"log_level": 2, **self._settings})

    def marker(self, shard: int, batch: int, epoch: int) -> Marker:
        """Return the marker of a batch."""
        words = {"outbox": self._outbox_id, "shard": shard, "batch": batch, "epoch": epoch}
        signature = hmac.digest(self._signing_key, orjson.dumps(words), "sha256").hex()
        return Marker(self._topic, shard, self._key(shard), orjson.dumps({**words, "signature": signature}))

    def batch_of(self, shard: int, value: bytes | None) -> int | None:
        """Return the number of the batch that a record marks; None unless this outbox wrote it for this shard."""
        try:
            words = orjson.loads(value or b"")
            batch, epoch = words["batch"], words["epoch"]
        except (ValueError, TypeError, KeyError):
            return None
        if not isinstance(batch, int) or not isinstance(epoch, int):
            return None
        written = self.marker(shard, batch, epoch).value
        return batch if hmac.compare_digest(written, value or b"") else None

    def ready(self) -> tuple[str, str]:
        """Make the topic if it is not there, and return the ids of its cluster and its own.

        Raises:
            KafkaUnavailableError: the cluster did not answer, or does not let us.
            MarkersTopicError: markers would not last in the topic.
        """
        return ready_topic(self._admin, self._topic)

    def last(self, shard: int) -> int | None:
        """Return the number of the last batch of a shard that is in Kafka; None when there is none.

        The shard's older producers must have been fenced: nothing is open then, and this is the last word.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
        """
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                return self._last(TopicPartition(self._topic, shard))
            except KafkaException as error:
                # A topic that was just made, or whose leader moves, answers so for a moment.
                if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                    raise KafkaUnavailableError(
                        f"The markers of shard {shard} in topic {self._topic} could not be read: "
                        f"{error.args[0].str()}. Nothing was sent."
                    ) from error
                time.sleep(_POLL_SECONDS)

    def _last(self, place: TopicPartition) -> int | None:
        low, end = self._ends(place)
        window = _FIRST_WINDOW
        while True:
            start = max(low, end - window)
            found = self._last_between(place, start, end)
            if found is not None or start == low:
                return found
            window *= 10

    def _key(self, shard: int) -> bytes:
        return f"{self._outbox_id}/{shard}".encode()

    def _ends(self, place: TopicPartition) -> tuple[int, int]:
        """Return where the partition begins and ends, once no transaction is open in it."""
        deadline = time.monotonic() + _SECONDS
        while True:
            low = self._offset(place, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
            end = self._offset(place, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
            if self._offset(place, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED) >= end:
                return low, end
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"Partition {place.partition} of topic {self._topic} holds an open transaction that does not end; "
                    f"nothing was sent. Only the relays of one outbox may write to that topic."
                )
            time.sleep(_POLL_SECONDS)

    def _offset(self, place: TopicPartition, spec: OffsetSpec, isolation: IsolationLevel) -> int:
        answers = self._admin.list_offsets({place: spec}, isolation_level=isolation, request_timeout=_SECONDS)
        offset = int(answers[place].result(_SECONDS).offset)
        if offset < 0:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return offset

    def _last_between(self, place: TopicPartition, start: int, end: int) -> int | None:
        if start >= end:
            return None
        consumer = new_client(
            Consumer,
            {
                "log_level": 2,
                **self._settings,
                "group.id": GROUP_NEVER_JOINED,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            },
        )
        key, found, strange = self._key(place.partition), None, 0
        deadline = time.monotonic() + _SECONDS
        try:
            consumer.assign([TopicPartition(place.topic, place.partition, start)])
            while time.monotonic() < deadline:
                message = consumer.poll(_POLL_SECONDS)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    if strange:
                        self._warn_of(strange, place.partition)
                    return found
                if error is not None:
                    raise KafkaException(error)
                if message.key() != key:
                    continue
                batch = self.batch_of(place.partition, message.value())
                # The highest, for numbers grow: an older marker that somebody wrote once more is not the last one.
                found = found if batch is None else max(found or 0, batch)
                strange += batch is None
        finally:
            consumer.close()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _warn_of(self, strange: int, shard: int) -> None:
        log.warning(
            "Topic %s, partition %s: %s records have the key of this outbox's markers, and another program wrote them. "
            "They were ignored. Let nobody but the relays write to that topic.",
            self._topic,
            shard,
            strange,
        )
