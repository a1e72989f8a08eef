"""Chooses and claims the next batch of a shard: a retry that is due, a topic that is sent alone, or all others."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.outbox.relay.context import RelayContext
from workorders.outbox.relay.prefetch import Prefetcher
from workorders.outbox.relay.quarantine import Quarantine
from workorders.outbox.store.backlog import BatchRequest, DueHold, is_anything_waiting, next_due_hold
from workorders.outbox.store.claims import (
    ClaimedBatch,
    CompletedBatch,
    complete,
    complete_and_claim,
    complete_and_claim_prefetched,
)
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.rows import FetchedRows, Row, total_bytes

_FIRST_BATCH: Final = 500
"""A shard starts with a small batch: while Kafka takes it, which is slow the first time, larger ones are read."""


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """Rows to send. Their claim must be committed before Kafka commits them."""

    rows: Sequence[Row]
    #: Waits for the claim.
    claim: Callable[[], ClaimedBatch]
    #: The hold that is retried with it.
    due: DueHold | None = None
    #: The topic that is sent alone.
    only_topic: str | None = None


class BatchQueue:
    """The batches of one shard; each deletes the one before it, which is in Kafka by then."""

    def __init__(self, connection: Connection, lease: Lease, context: RelayContext, quarantine: Quarantine) -> None:
        self._connection = connection
        self._lease = lease
        self._context = context
        self._definition = context.definition
        self._quarantine = quarantine
        self._max_messages = min(_FIRST_BATCH, context.definition.batch_messages)
        #: In Kafka, and not deleted yet.
        self._completed: CompletedBatch | None = None
        self._claiming: Future[ClaimedBatch] | None = None
        #: Reads behind the completed batch; valid as long as batches are sent as they were read.
        self._prefetcher: Prefetcher | None = None

    def next_batch(self) -> PendingBatch | None:
        """Return the next batch; None if nothing waits."""
        while self._completed is not None or is_anything_waiting(self._connection, self._lease.buckets):
            prefetched = self._prefetcher.next_batch() if self._prefetcher else None
            if prefetched is not None:
                return self._claim_meanwhile(prefetched)
            self.discard_prefetched()
            due = next_due_hold(self._connection, self._lease.buckets)
            only = None if due else self._quarantine.next_topic()
            batch = self._claim(self._request(due, only))
            if batch is None and due is None and only is None and self._quarantine.limits:
                only = min(self._quarantine.limits)
                batch = self._claim(self._request(None, only))
            if batch is not None:
                return _claimed(batch, due, only)
            if due is not None:
                # No message of the hold is left.
                complete(self._connection, self._lease, CompletedBatch(number=0, ended_hold=due.id))
            elif only is not None:
                # All messages of the topic may be held by now.
                self._quarantine.limits.pop(only)
            else:
                return None
        return None

    def wait_for_claim(self) -> None:
        """Wait until the last claim has ended, because it uses the connection."""
        if self._claiming is not None:
            self._claiming.exception()

    def prefetch_after(self, pending: PendingBatch, batch: ClaimedBatch) -> None:
        """Start to read ahead while Kafka commits a batch, if as much again seems to wait."""
        is_ordinary = pending.due is None and pending.only_topic is None and not self._quarantine.limits
        if self._prefetcher is None and is_ordinary and self._is_full(batch):
            self._max_messages = self._definition.batch_messages
            self._prefetcher = Prefetcher(
                self._context.pool, self._lease.buckets, self._request(None, None), after=batch.content.slices
            )

    def completed(self, pending: PendingBatch, batch: ClaimedBatch, compacted: Mapping[str, int]) -> None:
        """Let the next claim delete a batch, which is in Kafka."""
        self._completed = CompletedBatch(
            number=batch.number,
            compacted=compacted,
            ended_hold=pending.due.id if pending.due else None,
            keep=self._definition.keeps_sent,
        )
        if pending.only_topic is not None:
            self._quarantine.succeeded(pending.only_topic)

    def reset(self) -> None:
        """Forget what was sent and read: the checkpoint in Kafka decides what was completed."""
        self._completed = None
        self.discard_prefetched()

    def discard_prefetched(self) -> None:
        """Forget what was read ahead."""
        if self._prefetcher is not None:
            self._prefetcher.stop()
            self._prefetcher = None

    def finish(self) -> None:
        """Delete what was sent last, and claim nothing more."""
        self.close()
        if self._completed is not None:
            complete(self._connection, self._lease, self._completed)
            self._completed = None

    def close(self) -> None:
        """Stop to read ahead."""
        prefetcher = self._prefetcher
        self.discard_prefetched()
        if prefetcher is not None:
            prefetcher.join()

    def _request(self, due: DueHold | None, only_topic: str | None) -> BatchRequest:
        with_event_ids = self._definition.event_id_header is not None
        if due is not None:
            # A retry consists of one message.
            return BatchRequest(
                max_messages=1,
                max_bytes=1,
                only_topic=due.topic,
                hold_id=due.id if due.kind == "key" else None,
                with_event_ids=with_event_ids,
            )
        return BatchRequest(
            max_messages=self._quarantine.limits[only_topic] if only_topic else self._max_messages,
            max_bytes=self._definition.batch_bytes,
            only_topic=only_topic,
            excluded_topics=() if only_topic else sorted(self._quarantine.limits),
            with_event_ids=with_event_ids,
        )

    def _claim(self, request: BatchRequest) -> ClaimedBatch | None:
        batch = complete_and_claim(self._connection, self._lease, self._completed, request)
        self._completed = None
        return batch

    def _claim_meanwhile(self, rows: FetchedRows) -> PendingBatch:
        """Claim rows in the executor.

        They may be sent meanwhile. No consumer reads them before Kafka commits, and the commit waits for the claim.
        """
        completed, self._completed = self._completed, None
        self._claiming = self._context.executor.submit(self._claim_prefetched, completed, rows)
        return PendingBatch(rows.rows, self._claiming.result)

    def _claim_prefetched(self, completed: CompletedBatch | None, rows: FetchedRows) -> ClaimedBatch:
        batch = complete_and_claim_prefetched(self._connection, self._lease, completed, rows)
        if self._prefetcher is not None:
            self._prefetcher.mark_deleted()
        return batch

    def _is_full(self, batch: ClaimedBatch) -> bool:
        rows = batch.content.rows
        return 2 * len(rows) >= self._max_messages or 2 * total_bytes(rows) >= self._definition.batch_bytes


def _claimed(batch: ClaimedBatch, due: DueHold | None, only_topic: str | None) -> PendingBatch:
    return PendingBatch(batch.content.rows, lambda: batch, due, only_topic)
