"""Which partitions wait for a producer, and that it is reported once."""

from workorders.kafka.partitions import Partition, Position
from workorders.kafka.planning.open_transactions import OpenTransactionLog, waiting_partitions

ORDERS = Partition("orders", 0, "id-1")


def ledger(next_offset: int, *, busy: bool = False) -> dict[Partition, Position]:
    return {ORDERS: Position(ORDERS, next_offset, busy=busy)}


def test_a_partition_waits_when_all_before_the_open_transaction_was_read() -> None:
    assert waiting_partitions({ORDERS: 5}, ledger(5)) == {ORDERS: 5}
    # Reading may have begun inside the transaction, where the topic ended when the trigger was new.
    assert waiting_partitions({ORDERS: 5}, ledger(8)) == {ORDERS: 5}
    assert waiting_partitions({ORDERS: 5}, ledger(4)) == {}
    assert waiting_partitions({ORDERS: 5}, ledger(5, busy=True)) == {}
    assert waiting_partitions({ORDERS: 5}, {}) == {}


def test_a_transaction_that_is_open_at_one_probe_only_is_not_reported() -> None:
    news = OpenTransactionLog()
    assert news.new_entries({ORDERS: 5}) == {}
    assert news.new_entries({ORDERS: 9}) == {}
    assert news.new_entries({}) == {}
    assert news.new_entries({ORDERS: 9}) == {}


def test_a_transaction_that_stays_open_is_reported_once_and_the_next_one_again() -> None:
    news = OpenTransactionLog()
    reported = [news.new_entries({ORDERS: offset}) for offset in (5, 5, 5, 9, 9, 9)]
    assert reported == [{}, {ORDERS: 5}, {}, {}, {ORDERS: 9}, {}]
