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
    unclear = [partition for partition, high in high_watermarks.items() if last_stable.get(partition, high) < high]
    stable = await cluster.last_stable_offsets(unclear)
    return {partition: offset for partition, offset in stable.found.items() if offset < high_watermarks[partition]}


def waiting_partitions(held: Mapping[Partition, int], ledger: Mapping[Partition, Position]) -> dict[Partition, int]:
    """Return the partitions that have only an open transaction left to read and that no batch holds."""
    return {
        partition: offset
        for partition, offset in held.items()
        if (position := ledger.get(partition)) is not None and not position.busy and offset <= position.next_offset
    }


class OpenTransactionLog:
    """Reports each transaction that stays open once, and short ones never."""

    def __init__(self) -> None:
        self._before: Mapping[Partition, int] = {}
        self._reported: Mapping[Partition, int] = {}

    def new_entries(self, now: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the partitions that wait at the same offset as in the call before and were not reported yet."""
        lasting = {partition: offset for partition, offset in now.items() if self._before.get(partition) == offset}
        news = {partition: offset for partition, offset in lasting.items() if self._reported.get(partition) != offset}
        self._before, self._reported = dict(now), lasting
        return news
