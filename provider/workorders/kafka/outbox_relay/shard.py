"""The work on one shard: claim a batch, send it with its marker, delete it; after a loss, learn what became of it.

Postgres, this program and Kafka work at the same time: while the messages of a batch go into the producer's queue, the
batch is claimed and the one before it deleted; meanwhile the next ones are read.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.bisection import Careful
from workorders.kafka.outbox_relay.compaction import compacted
from workorders.kafka.outbox_relay.context import Tools
from workorders.kafka.outbox_relay.delivery_errors import Refusal, Suspicion
from workorders.kafka.outbox_relay.prefetch import Ahead
from workorders.kafka.outbox_relay.producer import Sender, SenderLostError
from workorders.kafka.outbox_relay.producer_startup import new_sender
from workorders.kafka.outbox_relay.quarantine import hold_refused, hold_topics
from workorders.kafka.outbox_relay.stumbles import Stumbles
from workorders.kafka.outbox_relay.topic_metadata import sending_topics
from workorders.kafka.outbox_relay.wanted import of_hold, of_topics
from workorders.outbox.store import holds
from workorders.outbox.store.claims import Batch, Sent, Wanted, advance, claim, drop_claims, is_anything_waiting
from workorders.outbox.store.holds import DueHold
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.rows import Reading, Row, bytes_of

_FIRST_BATCH: Final = 500
"""A shard begins with a small batch: while Kafka takes it, which is slow the first time, large ones are read."""


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
        #: What follows the batch in `_finished`; valid as long as batches are sent as they were read.
        self._ahead: Ahead | None = None
        self._stumbles = Stumbles()

    def recover(self) -> None:
        """Fence the shard's older producers, and settle the batch that one of them may have left.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
            OutboxContradictionError: marker and database do not fit together.
            OutboxFencedError: the lease is somebody else's by now.
        """
        self._sender, self._finished = None, None
        self._forget_ahead()
        self._sender = new_sender(self._connection, self.lease, self._tools)
        self._stumbles.hold(self._connection, self.lease, self._tools)

    def step(self) -> bool:
        """Send one batch, if anything waits; say whether there was one.

        Raises:
            SenderLostError: `recover` must be called before the next step.
            OutboxFencedError: the lease is somebody else's by now.
        """
        if self._finished is None and not is_anything_waiting(self._connection, self.lease.buckets):
            return False
        ahead = self._take_ahead()
        if ahead is not None:
            self._send_ahead(ahead)
            return True
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
            # What was read of the one topic may all have stepped aside, and others are left, of this topic too.
            return due is not None or only is not None
        self._send(batch.rows, lambda: batch, due, only)
        return True

    def finish(self) -> None:
        """Delete what was sent last; nothing more is claimed."""
        self.close()
        if self._finished is not None:
            self._advance(None)

    def close(self) -> None:
        """Leave the shard as it is."""
        ahead = self._ahead
        self._forget_ahead()
        if ahead is not None:
            ahead.join()

    def _next_due(self) -> DueHold | None:
        return next(iter(holds.due(self._connection, self.lease.buckets)), None)

    def _wanted(self, due: DueHold | None, only: str | None) -> Wanted:
        definition = self._tools.definition
        if due is not None:
            return of_hold(definition, due)
        messages = self._messages if only is None else self._careful.limits[only]
        return of_topics(definition, messages, only=only, without=() if only else sorted(self._careful.limits))

    def _advance(self, wanted: Wanted | None) -> Batch | None:
        batch = advance(
            self._connection,
            self.lease,
            sent=self._finished,
            wanted=wanted,
            keep_sent=self._tools.definition.keeps_sent,
        )
        self._finished = None
        return batch

    def _send_nothing(self, due: DueHold) -> None:
        """A hold has come due of which no message is left."""
        self._finished = Sent(number=0, ended_hold=due.id)
        self._advance(None)

    def _take_ahead(self) -> Reading | None:
        reading = self._ahead.take() if self._ahead else None
        if reading is None:
            self._forget_ahead()
        return reading

    def _forget_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.stop()
            self._ahead = None

    def _send_ahead(self, reading: Reading) -> None:
        """Send what was read ahead.

        Its messages are on their way already while it is claimed, which does no harm: nobody sees them before the
        commit, and that comes later.
        """
        claiming = self._tools.side.submit(self._claim, self._finished, reading)
        self._finished = None
        try:
            self._send(reading.rows, claiming.result, None, None)
        finally:
            # However that ends, nothing else may use the connection before.
            claiming.exception()

    def _claim(self, sent: Sent | None, reading: Reading) -> Batch:
        batch = claim(
            self._connection, self.lease, sent=sent, reading=reading, keep_sent=self._tools.definition.keeps_sent
        )
        if self._ahead is not None:
            self._ahead.deleted()
        return batch

    def _send(self, rows: Sequence[Row], claimed: Callable[[], Batch], due: DueHold | None, only: str | None) -> None:
        """Send rows that are claimed, or are just being claimed."""
        faults = self._tools.topics.faults(sending_topics(rows))
        refused = None if faults else self._tools.topics.refusal(rows)
        if faults or refused is not None:
            claimed()
            self._put_aside(refused or Suspicion(topics=faults), rows)
            return
        to_send, left_out = compacted(rows, self._tools.compacted_topics)
        try:
            batch, refused = self._fill(to_send, claimed)
            outcome = refused or self._commit(batch, plain=due is None and only is None)
        except SenderLostError as error:
            # A right that was taken from us fails all topics of a batch, without a word of which one it was.
            self._tools.topics.forget()
            self._stumbles.note(error, rows, self._careful, due)
            raise
        if outcome is None:
            self._note_sent(batch, left_out, due, only)
        else:
            self._put_aside(outcome, rows)

    def _fill(self, rows: Sequence[Row], claimed: Callable[[], Batch]) -> tuple[Batch, Refusal | None]:
        """Let the producer begin; nothing of it is seen by anybody before `_commit`."""
        sender = self._begun_sender()
        refused = sender.fill(rows)
        if refused is not None:
            return claimed(), refused
        sender.hasten()
        try:
            return claimed(), None
        except BaseException:
            sender.abandon()
            raise

    def _commit(self, batch: Batch, *, plain: bool) -> Suspicion | None:
        """Let Kafka commit; meanwhile is read what comes next."""
        marker = self._tools.markers.marker(self.lease.shard, batch.number, self.lease.epoch)
        if plain and self._ahead is None and not self._careful.limits and self._is_full(batch):
            self._messages = self._tools.definition.batch_messages
            self._ahead = Ahead(self._tools.pool, self.lease.buckets, self._wanted(None, None), behind=batch)
        return self._begun_sender().commit(marker)

    def _is_full(self, batch: Batch) -> bool:
        most_bytes = self._tools.definition.batch_bytes
        return 2 * len(batch.rows) >= self._messages or 2 * bytes_of(batch.rows) >= most_bytes

    def _begun_sender(self) -> Sender:
        if self._sender is None:  # cannot be: the caller recovers after every loss
            raise SenderLostError("The relay has no producer.")
        return self._sender

    def _note_sent(self, batch: Batch, left_out: Counter[str], due: DueHold | None, only: str | None) -> None:
        self._finished = Sent(number=batch.number, compacted=left_out, ended_hold=due.id if due else None)
        self.sent += len(batch.rows)
        if only is not None:
            self._careful.went_well(only)

    def _put_aside(self, outcome: Refusal | Suspicion, rows: Sequence[Row]) -> None:
        self._forget_ahead()
        if isinstance(outcome, Suspicion) and outcome.topics:
            hold_topics(self._connection, self.lease, self._tools, outcome.topics)
            return
        culprit = outcome if isinstance(outcome, Refusal) else self._careful.closed_in(outcome, rows)
        if culprit is not None:
            hold_refused(self._connection, self.lease, self._tools, culprit)
        else:
            drop_claims(self._connection, self.lease)
