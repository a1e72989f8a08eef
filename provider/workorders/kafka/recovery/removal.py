"""Removes a topic from the ledger that was deleted from Kafka after everything was read."""

import asyncio
from typing import TYPE_CHECKING

from workorders.core import triggers
from workorders.core.postgres.connection import Connection
from workorders.kafka.exceptions import AnotherClusterError, DecisionRefusedError
from workorders.kafka.ledger import positions as ledger

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin


def remove_topic(connection: Connection, cluster: "KafkaAdmin", trigger: str, topic: str) -> int:
    """Remove the partitions of a topic that Kafka does not have, and commit; return how many. Work orders stay.

    Raises:
        UnknownTriggerError: no trigger has that name.
        DecisionRefusedError: Kafka has the topic, the ledger does not, or a batch holds a partition.
        AnotherClusterError: the topic was found in another cluster than the one that was asked.
        KafkaUnavailableError: the cluster did not answer.
    """
    known = ledger.positions(connection, trigger)
    # Kafka is asked outside of any transaction, which must not wait for a network.
    connection.rollback()
    cluster_id = asyncio.run(cluster.cluster_id())
    for position in known.values():
        if position.partition.topic == topic and position.cluster_id not in {None, cluster_id}:
            raise AnotherClusterError.of(f"{trigger}: {topic}", str(position.cluster_id), cluster_id)
    if asyncio.run(cluster.log_ends([topic])).require():
        raise DecisionRefusedError(f"{trigger}: Kafka has the topic {topic}; nothing was changed. Delete it first.")
    with connection.transaction():
        removed = ledger.remove_topic(connection, triggers.find(connection, trigger), topic)
    if not removed:
        raise DecisionRefusedError(
            f"{trigger}: the ledger has no topic {topic}, or a batch holds a partition of it; nothing was changed; see "
            f"`workorders status`."
        )
    return removed
