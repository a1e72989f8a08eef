"""The checkpoint topic as the relay makes it."""

import pytest

from workorders.kafka.outbox_relay.checkpoints import new_topic


@pytest.mark.parametrize(
    ("brokers", "copies", "config"),
    [
        (1, 1, {"cleanup.policy": "compact"}),
        (2, 2, {"cleanup.policy": "compact"}),
        (3, 3, {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
        (9, 3, {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
    ],
)
def test_it_is_copied_to_other_brokers_where_there_are_such(brokers: int, copies: int, config: dict[str, str]) -> None:
    topic = new_topic("checkpoints", brokers=brokers)
    assert (topic.num_partitions, topic.replication_factor, topic.config) == (16, copies, config)
