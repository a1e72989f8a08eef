"""Partitions that wait for a producer to commit or abort: neither idle nor done."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workorders.kafka.partitions import Partition, Position

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin


async def blocked_by_transactions(
    cluster: "KafkaAdmin", last_stable: Mapping[Partition, int], high_watermarks: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Return the last stable offsets of now that an open transaction holds back.

    Where the log ends behind the last stable offset, that one is asked for again: a message that came between the two
    questions looks like an open transaction. The last stable offset of now reaches the high watermark of then, unless a
    transaction is open indeed.

    Raises:
        KafkaUnavailableError: the cluster did not answer.
    """
    doubtful = [part for part, high in high_watermarks.items() if last_stable.get(part, high) < high]
    stable = await cluster.last_stable_offsets(doubtful)
    return {part: offset for part, offset in stable.items() if offset < high_watermarks[part]}


def waiting_partitions(held: Mapping[Partition, int], ledger: Mapping[Partition, Position]) -> dict[Partition, int]:
    """Return where reading waits for an open transaction: all before it was read, and no batch is at work."""
    return {
        part: offset
        for part, offset in held.items()
        if (position := ledger.get(part)) is not None and not position.busy and offset <= position.next_offset
    }


class OpenTransactionLog:
    """Remembers what was said, so that a transaction that stays open is said once, and a short one never."""

    def __init__(self) -> None:
        self._before: Mapping[Partition, int] = {}
        self._said: Mapping[Partition, int] = {}

    def new_entries(self, now: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return what waits at the same offset as at the look before, and was not said yet."""
        lasting = {part: offset for part, offset in now.items() if self._before.get(part) == offset}
        news = {part: offset for part, offset in lasting.items() if self._said.get(part) != offset}
        self._before, self._said = dict(now), lasting
        return news
