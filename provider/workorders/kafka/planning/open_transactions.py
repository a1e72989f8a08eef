"""Partitions that wait for a producer to commit or abort an open transaction."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workorders.kafka.partitions import Partition, Position

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin


async def blocked_by_transactions(
    cluster: "KafkaAdmin", last_stable: Mapping[Partition, int], high_watermarks: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Return the current last stable offsets that an open transaction holds back.

    A message that arrives between the two questions looks like an open transaction. So the last stable offset is asked
    again if it is below the high watermark: it reaches that high watermark now unless a transaction is open.

    Raises:
        KafkaUnavailableError: the cluster did not answer.
    """
    unclear = [part for part, high in high_watermarks.items() if last_stable.get(part, high) < high]
    stable = await cluster.last_stable_offsets(unclear)
    return {part: offset for part, offset in stable.found.items() if offset < high_watermarks[part]}


def waiting_partitions(held: Mapping[Partition, int], ledger: Mapping[Partition, Position]) -> dict[Partition, int]:
    """Return the partitions that have only an open transaction left to read and that no batch holds."""
    return {
        part: offset
        for part, offset in held.items()
        if (position := ledger.get(part)) is not None and not position.busy and offset <= position.next_offset
    }


class OpenTransactionLog:
    """Reports each transaction that stays open once, and short ones never."""

    def __init__(self) -> None:
        self._before: Mapping[Partition, int] = {}
        self._reported: Mapping[Partition, int] = {}

    def new_entries(self, now: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the partitions that wait at the same offset as in the call before and were not reported yet."""
        lasting = {part: offset for part, offset in now.items() if self._before.get(part) == offset}
        news = {part: offset for part, offset in lasting.items() if self._reported.get(part) != offset}
        self._before, self._reported = dict(now), lasting
        return news
