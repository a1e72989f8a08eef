from dataclasses import replace

import pytest

from workorders.kafka.ledger.positions import missing_from_ledger, parse_stream_name, positions_from, stream_name
from workorders.kafka.partitions import Partition, Position

ORDERS = Partition("orders", 3, "Xk9")


def test_the_stream_of_a_partition_names_the_topic_id_too() -> None:
    assert stream_name(ORDERS) == "orders/3@Xk9"
    assert stream_name(replace(ORDERS, topic_id="other")) != stream_name(ORDERS)


@pytest.mark.parametrize("generation", [0, 12])
def test_the_name_of_a_stream_is_read_as_it_was_written(generation: int) -> None:
    partition = Partition("orders.v1", 3, "a-topic_id")
    assert parse_stream_name(stream_name(partition, generation)) == (partition, generation)
    assert parse_stream_name("interval") is None


def test_a_partition_with_a_row_is_known_whatever_its_topic_id() -> None:
    new = Partition("orders", 4, "Xk9")
    assert missing_from_ledger([replace(ORDERS, topic_id="other"), new], [ORDERS]) == [new]


def test_rows_of_the_query_become_positions_by_partition() -> None:
    rows = [
        ("orders", 3, "Xk9", 17, 210.5, True, 9.5, True, "a-cluster", 40),
        ("orders", 4, "Xk9", 0, None, False, None, False, None, 0),
    ]
    other = Partition("orders", 4, "Xk9")
    assert positions_from(rows) == {
        ORDERS: Position(
            ORDERS,
            17,
            busy=True,
            mean_message_bytes=210.5,
            stalled_seconds=9.5,
            alerted=True,
            cluster_id="a-cluster",
            stored_end=40,
        ),
        other: Position(other, 0, busy=False, mean_message_bytes=None),
    }
