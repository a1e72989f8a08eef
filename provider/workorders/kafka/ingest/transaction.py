"""Creates the work orders of one range and advances the ledger, in one Postgres transaction."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from workorders.core.creation.work_orders import Created, create_for
from workorders.core.exceptions import LimitReachedError
from workorders.core.ids import increasing_ids
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.kafka.exceptions import (
    DataLostError,
    FencedError,
    LedgerConflictError,
    TopicRecreatedError,
    UnexpectedMessageError,
    WorkflowFullError,
)
from workorders.kafka.ingest import dead_letters
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.breaker import Breaker
from workorders.kafka.ingest.record_mapping import FILTERED
from workorders.kafka.ledger import batches, positions, virtual_partitions
from workorders.kafka.ledger.positions import LockedPosition
from workorders.kafka.partitions import VirtualPartition

VerifyEnd = Callable[[int], None]
VerifyTopic = Callable[[], None]


class _OrderCheck:
    """Passes items on, and checks that they belong to the range and are in order."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.next_offset = attempt.read_from
        self.messages = 0
        self.bytes = 0
        self.filtered = 0

    def watch(self, items: Iterable[Item]) -> Iterator[Item]:
        """Pass items on, without those of messages that the filter leaves out.

        Raises:
            UnexpectedMessageError: one is not of the range, or not after the one before.
        """
        # Every message passes here, so local variables count, and the attributes are set at the end.
        range_, next_offset, messages, bytes_ = self._attempt.range, self.next_offset, self.messages, self.bytes
        end = range_.end
        try:
            for item in items:
                _, position, request, body, rejection, raw = item
                if position is None or not next_offset <= position < end:
                    raise UnexpectedMessageError(
                        f"{self._attempt.trigger.name}: the reader of {range_} delivered offset {position} instead "
                        f"of one in [{next_offset}, {end}); nothing was committed there."
                    )
                next_offset = position + 1
                if rejection is FILTERED:
                    self.filtered += 1
                    continue
                messages += 1
                bytes_ += len(request) + len(body or raw or b"")
                yield item
        finally:
            self.next_offset, self.messages, self.bytes = next_offset, messages, bytes_

    @property
    def mean_message_bytes(self) -> float | None:
        return self.bytes / self.messages if self.messages else None


def ingest(
    connection: Connection, attempt: Attempt, items: Iterable[Item], verify_end: VerifyEnd, verify_topic: VerifyTopic
) -> Created:
    """Create the work orders of one range, exactly once, and commit.

    The ledger moves in the same transaction. After a virtual partition it moves in a separate one, to the first virtual
    partition of the range that is not finished. A virtual partition that is finished already is not read.

    Args:
        connection: used by this call only, without an open transaction.
        attempt: the range and the epoch.
        items: the range's visible messages, in the order of their offsets.
        verify_end: called with the offset after the last item if that is not the range's end. It raises if a
            `read_committed` reader finds a message between that offset and the end.
        verify_topic: called after everything was read and before the commit, while no lock is held that another
            partition, trigger or caller needs, because it asks Kafka. It raises if the topic was re-created or
            truncated after the range was planned, which the reader itself does not notice.

    Returns:
        The counts of this attempt.

    Raises:
        RangeError: the range cannot be ingested; nothing was committed.
        psycopg.Error: the database failed; nothing was committed. If the connection broke during the commit itself, or
            a virtual partition is committed and the ledger could not be moved, the database shows what succeeded.
    """
    if attempt.is_replay:
        return _replay(connection, attempt, items, verify_end, verify_topic)
    breaker = None if attempt.max_rejected_share is None else Breaker(attempt, attempt.max_rejected_share)
    watch = _OrderCheck(attempt)
    # The order first, because nothing can be concluded from messages that are not those of the range.
    watched = watch.watch(items)
    if breaker is not None:
        watched = breaker.watch(watched)

    def prove() -> None:
        _require_whole(watch, attempt, verify_end)
        verify_topic()

    virtual = attempt.range if isinstance(attempt.range, VirtualPartition) else None
    place = attempt.batch_id, attempt.range.planned, attempt.epoch
    with connection.transaction():
        positions.wait_for_copies(connection, attempt.batch_id, attempt.epoch, attempt.range)
        locked = _lock_ledger(connection, attempt)
        # Another copy of this attempt may have finished the virtual partition.
        created = None if virtual is None else virtual_partitions.lock(connection, attempt.batch_id, virtual)
        if created is None:
            _require_position(attempt, locked)
            created = _create(connection, attempt, watch, watched, prove, fresh=_is_new(connection, attempt))
            if breaker is not None:
                breaker.require_within_share(created)
            dead_letters.publish(connection, attempt, created)
            if virtual is None:
                virtual_partitions.finish_range(
                    connection, *place, created, mean_message_bytes=watch.mean_message_bytes
                )
            else:
                virtual_partitions.finish(connection, attempt.batch_id, virtual, created)
    if virtual is not None:
        virtual_partitions.advance(connection, *place, watch.mean_message_bytes)
    return created


def _is_new(connection: Connection, attempt: Attempt) -> bool:
    """Return whether no message of the range has a work order.

    Messages may have work orders if an operator set the ledger back, or restored an older ledger, or superseded a range
    some of whose virtual partitions were finished. While the ledger's row is locked only a replay may write here as
    well, and the unique key prevents duplicates.
    """
    return batches.count_work_orders(connection, attempt.trigger, attempt.stream, attempt.range) == 0


def _replay(
    connection: Connection, attempt: Attempt, items: Iterable[Item], verify_end: VerifyEnd, verify_topic: VerifyTopic
) -> Created:
    """Insert missing work orders and advance nothing, because the ledger is past this range already.

    What retention deleted is not missing, and nothing tells the one from the other but age. Retention deletes work
    orders that are older than some days, by the database's clock. If the batch is younger at the end of this
    transaction, no retention that committed before has deleted a work order of it; a later one finds what this
    transaction saw and created, and leads to no second row.
    """
    watch = _OrderCheck(attempt)

    def prove() -> None:
        _require_whole(watch, attempt, verify_end)
        if attempt.read_from < attempt.range.end:
            verify_topic()

    with connection.transaction():
        positions.wait_for_copies(connection, attempt.batch_id, attempt.epoch, attempt.range)
        created = _create(connection, attempt, watch, watch.watch(items), prove, fresh=False)
        stored = batches.count_work_orders(connection, attempt.trigger, attempt.stream, attempt.range)
        batches.require_kept(connection, attempt.batch_id)
    missing = (attempt.replayed or 0) - stored
    if missing > 0:
        range_ = attempt.range
        raise DataLostError(
            f"{attempt.trigger.name}: {missing} of the {attempt.replayed} messages of {range_} have no work order any "
            f"more and cannot be restored, because Kafka does not have offsets "
            f"[{range_.start}, {attempt.read_from}) any more; all others exist."
        )
    return created


def _create(
    connection: Connection,
    attempt: Attempt,
    watch: _OrderCheck,
    items: Iterable[Item],
    prove: Callable[[], None],
    *,
    fresh: bool,
) -> Created:
    range_ = attempt.range
    # Executors' clocks differ, and ids must grow along a partition.
    ids = increasing_ids(after=batches.find_last_id(connection, attempt.trigger, attempt.stream, range_.start))
    try:
        created = create_for(connection, attempt.trigger, items, fresh=fresh, ids=ids, prove=prove)
        return replace(created, filtered=watch.filtered)
    except LimitReachedError as error:
        raise WorkflowFullError(f"{attempt.trigger.name}: {range_}: {error} Nothing was committed there.") from error


def _lock_ledger(connection: Connection, attempt: Attempt) -> LockedPosition:
    """Lock the range's ledger row, and check that no newer attempt and no decision has taken it over."""
    range_ = attempt.range
    is_shared = isinstance(range_, VirtualPartition)
    locked = positions.lock(connection, attempt.trigger, range_.partition, is_shared=is_shared)
    where = f"{attempt.trigger.name}: {range_}"
    if locked.epoch != attempt.epoch:
        raise FencedError(
            f"{where}: this attempt (epoch {attempt.epoch}) was fenced by a newer one (epoch {locked.epoch}); "
            f"nothing was committed here. There is nothing to do: the newer attempt commits it."
        )
    if locked.topic_id != range_.partition.topic_id:
        raise TopicRecreatedError(f"{where}: the ledger follows another topic of that name now; nothing was committed.")
    return locked


def _require_position(attempt: Attempt, locked: LockedPosition) -> None:
    """Check that the ledger is at the range's start; before a virtual partition there may be unfinished ones."""
    range_ = attempt.range
    if not range_.planned.start <= locked.next_offset <= range_.start:
        raise LedgerConflictError(
            f"{attempt.trigger.name}: {range_}: the ledger is at {locked.next_offset} and not at the range's start; "
            f"nothing was committed; save this log and report it, because no sequence of events leads here."
        )


def _require_whole(watch: _OrderCheck, attempt: Attempt, verify_end: VerifyEnd) -> None:
    # Spark's stream into Python ends in the same way after a failed read as after a complete one (seen on 4.2.0). The
    # end of the input proves nothing, so the last offset must, or a check of the offsets after it.
    if watch.next_offset < attempt.range.end:
        verify_end(watch.next_offset)
