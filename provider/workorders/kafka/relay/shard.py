"""The work on one shard: claim a batch, send it with its marker, delete it; after a loss, learn what became of it."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from workorders.core.database import Connection
from workorders.kafka.relay.careful import Careful
from workorders.kafka.relay.compaction import compacted
from workorders.kafka.relay.definition import RelayDefinition
from workorders.kafka.relay.markers import Markers
from workorders.kafka.relay.refusals import Refusal, Suspicion
from workorders.kafka.relay.sender import Sender, SenderLostError
from workorders.kafka.relay.topics import KnownTopics, sending_topics
from workorders.outbox import holds
from workorders.outbox.batches import Batch, Sent, Wanted, advance, drop_claims, is_anything_waiting
from workorders.outbox.holds import DueHold
from workorders.outbox.leases import Lease
from workorders.outbox.recovery import open_claims, settle_claims
from workorders.outbox.settings import OutboxSettings

log: Final = logging.getLogger(__name__)

_FIRST_BATCH: Final = 500
"""A shard begins with small batches, which show how large its messages are, and soon has large ones."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What the shards of a relay share."""

    definition: RelayDefinition
    settings: OutboxSettings
    markers: Markers
    topics: KnownTopics
    compacted_topics: frozenset[str]
    set_aside_topics: frozenset[str]
    #: Starts a producer, with a transactional id or without.
    new_sender: Callable[[str | None], Sender]
    #: Is told each failure that was held, in one sentence.
    report: Callable[[str], None]


class ShardRelay:
    """Relays one shard as long as its lease lasts."""

    def __init__(self, connection: Connection, lease: Lease, tools: Tools) -> None:
        self.lease = lease
        self.sent = 0
        self._connection = connection
        self._tools = tools
        self._careful = Careful(tools.definition.batch_messages)
        self._messages = min(_FIRST_BATCH, tools.definition.batch_messages)
        self._sender: Sender | None = None
        self._finished: Sent | None = None
        self._culprit: Refusal | None = None

    @property
    def transactional_id(self) -> str:
        """The id by which Kafka knows the producers of this shard, one after the other."""
        definition, settings = self._tools.definition, self._tools.settings
        return f"{definition.transactional_id_prefix}-{settings.outbox_id}-{self.lease.shard}"

    def recover(self) -> None:
        """Fence the shard's older producers, and settle the batch that one of them may have left.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
            OutboxContradictionError: marker and database do not fit together.
            OutboxFencedError: the lease is somebody else's by now.
        """
        self._sender, self._finished = None, None
        transactional = self._tools.definition.transactional
        marker: int | None = None
        left = open_claims(self._connection, self.lease)
        if transactional or any(claim.marked for claim in left):
            # First the fence, then the look: the other way round, an older producer could still commit in between.
            self._sender = self._tools.new_sender(self.transactional_id)
            marker = self._tools.markers.last(self.lease.shard)
        deleted = settle_claims(self._connection, self.lease, self._tools.settings, marker, marks=transactional)
        if left:
            log.info(
                "Shard %s: %s messages were under way; %s of them are in Kafka, the others are sent now.",
                self.lease.shard,
                sum(claim.messages for claim in left),
                deleted,
            )
        if not transactional:
            self._sender = self._tools.new_sender(None)
        if self._culprit is not None:
            culprit, self._culprit = self._culprit, None
            self._hold_row(culprit)

    def step(self) -> bool:
        """Send one batch, if anything waits; say whether there was one.

        Raises:
            SenderLostError: `recover` must be called before the next step.
            OutboxFencedError: the lease is somebody else's by now.
        """
        if self._finished is None and not is_anything_waiting(self._connection, self._buckets):
            return False
        due = self._next_due()
        only = None if due else self._careful.next_topic()
        batch = self._advance(self._wanted(due, only))
        if batch is None and due is None and only is None and self._careful.limits:
            only = next(iter(sorted(self._careful.limits)))
            batch = self._advance(self._wanted(None, only))
        if batch is None:
            if only is not None:
                self._careful.limits.pop(only)
            if due is not None:
                self._send_nothing(due)
            return due is not None
        self._send(batch, due, only)
        return True

    def finish(self) -> None:
        """Delete what was sent last; nothing more is claimed."""
        if self._finished is not None:
            self._advance(None)

    @property
    def _buckets(self) -> list[int]:
        return self._tools.settings.buckets(self.lease.shard)

    def _next_due(self) -> DueHold | None:
        return next(iter(holds.due(self._connection, self._buckets)), None)

    def _wanted(self, due: DueHold | None, only: str | None) -> Wanted:
        definition = self._tools.definition
        if due is not None:
            held = due.id if due.kind == "key" else None
            return Wanted(
                messages=1,
                bytes=1,
                marked=definition.transactional,
                only=due.topic,
                hold=held,
                event_ids=definition.adds_event_id,
            )
        return Wanted(
            messages=self._messages if only is None else self._careful.limits[only],
            bytes=definition.batch_bytes,
            marked=definition.transactional,
            only=only,
            without=() if only else sorted(self._careful.limits),
            event_ids=definition.adds_event_id,
        )

    def _advance(self, wanted: Wanted | None) -> Batch | None:
        batch = advance(self._connection, self.lease, self._tools.settings, sent=self._finished, wanted=wanted)
        self._finished = None
        return batch

    def _send_nothing(self, due: DueHold) -> None:
        """A hold has come due of which no message is left."""
        self._finished = Sent(number=0, marked=False, ended_hold=due.id)
        self._advance(None)

    def _send(self, batch: Batch, due: DueHold | None, only: str | None) -> None:
        tools = self._tools
        missing = tools.topics.missing(sending_topics(batch.rows))
        if missing:
            self._hold_topics(dict.fromkeys(missing, "the cluster has no such topic"))
            return
        refused = tools.topics.refusal(batch.rows)
        if refused is not None:
            self._hold_row(refused)
            return
        rows, left_out = compacted(batch.rows, tools.compacted_topics)
        marker = None
        if tools.definition.transactional:
            marker = tools.markers.marker(self.lease.shard, batch.number, self.lease.epoch)
        if self._sender is None:  # cannot be: the caller recovers after every loss
            raise SenderLostError("The relay has no producer.")
        try:
            outcome = self._sender.send(rows, marker)
        except SenderLostError as error:
            if error.suspicion is not None:
                self._culprit = self._be_careful(error.suspicion, batch)
            raise
        if outcome is None:
            self._note_sent(batch, left_out, due, only)
        elif isinstance(outcome, Refusal):
            self._hold_row(outcome)
        else:
            self._suspect(outcome, batch)

    def _note_sent(self, batch: Batch, left_out: Counter[str], due: DueHold | None, only: str | None) -> None:
        self._finished = Sent(
            number=batch.number,
            marked=self._tools.definition.transactional,
            compacted=left_out,
            ended_hold=due.id if due else None,
        )
        self.sent += len(batch.rows)
        if only is not None:
            self._careful.went_well(only)
        elif due is None:
            self._messages = min(self._messages * 2, self._tools.definition.batch_messages)

    def _suspect(self, suspicion: Suspicion, batch: Batch) -> None:
        if suspicion.topics:
            self._hold_topics(suspicion.topics)
            return
        culprit = self._be_careful(suspicion, batch)
        if culprit is not None:
            self._hold_row(culprit)
        else:
            drop_claims(self._connection, self.lease)

    def _be_careful(self, suspicion: Suspicion, batch: Batch) -> Refusal | None:
        """Send less of the suspected topics at a time; return the message that failed alone."""
        counts = Counter(row.topic for row in batch.rows)
        culprit = None
        for topic, reason in suspicion.messages.items():
            if self._careful.failed(topic, counts[topic]):
                culprit = Refusal(next(row for row in batch.rows if row.topic == topic), reason)
        return culprit

    def _hold_topics(self, topics: dict[str, str]) -> None:
        for topic, reason in topics.items():
            holds.hold_topic(self._connection, self.lease, topic, reason)
            self._tools.report(
                f"Topic {topic} takes no messages: {reason}. They wait, and are tried again in a minute, then less "
                f"often; other topics go on."
            )

    def _hold_row(self, refused: Refusal) -> None:
        row = refused.row
        whole_key = row.topic not in self._tools.set_aside_topics
        holds.hold_row(self._connection, self.lease, self._tools.settings, row, refused.reason, whole_key=whole_key)
        later = "later ones of its key wait behind it" if whole_key and row.key is not None else "it was set aside"
        self._tools.report(
            f"Message {row.id} for topic {row.topic} was refused: {refused.reason}. It was not sent and is "
            f"kept, {later}, all others go on; see `workorders outbox status`."
        )
