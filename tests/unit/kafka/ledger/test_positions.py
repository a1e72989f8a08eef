from dataclasses import replace

import pytest

from workorders.kafka.ledger.positions import missing_from_ledger, parse_stream_name, stream_name
from workorders.kafka.partitions import Partition

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
