from dataclasses import replace

from workorders.core.creation.work_orders import Created
from workorders.kafka.ingest.attempt import RangeOutcome, combine
from workorders.kafka.partitions import OffsetRange, Partition, VirtualPartition

ORDERS, VISITS = (OffsetRange(Partition(topic, 0, "id"), 0, 30) for topic in ("orders", "visits"))
PARTS = [VirtualPartition(ORDERS.partition, start, start + 10, ORDERS) for start in (0, 10, 20)]
DONE = [RangeOutcome(part, Created(3, 2, 1), seconds) for part, seconds in zip(PARTS, (1.0, 3.0, 2.0), strict=True)]


def test_the_outcomes_of_virtual_partitions_are_one_of_their_range() -> None:
    whole = RangeOutcome(VISITS, Created(4), 0.5)
    assert combine([DONE[2], whole, DONE[0], DONE[1]]) == [RangeOutcome(ORDERS, Created(9, 6, 3), 3.0), whole]


def test_the_error_is_that_of_the_first_virtual_partition_that_failed() -> None:
    failed = [replace(DONE[place], created=Created(), error=f"{PARTS[place]}: no.") for place in (2, 1)]
    (outcome,) = combine([*failed, DONE[0]])
    assert outcome.error == "orders 0 [10, 20) of [0, 30): no. 1 more of its virtual partitions failed."
    (outcome,) = combine([failed[0], *DONE[:2]])
    assert outcome.error == "orders 0 [20, 30) of [0, 30): no."
    assert outcome.created == Created(6, 4, 2)


def test_a_range_is_fenced_with_any_of_its_virtual_partitions() -> None:
    (outcome,) = combine([DONE[0], replace(DONE[1], fenced=True), DONE[2]])
    assert outcome.fenced
