"""Consumer groups of a broker that may have started a moment ago."""

from collections.abc import Mapping

from local_stack.waiting import wait_until
from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.cluster import Cluster, run
from workorders.kafka.partitions import Partition

SECONDS = 30.0


def commit(cluster: Cluster, group: str, positions: Mapping[Partition, int]) -> None:
    """Write a group's offsets, as soon as the broker has loaded the group's coordinator."""
    assert wait_until(lambda: _commits(cluster, group, positions), seconds=SECONDS)


def _commits(cluster: Cluster, group: str, positions: Mapping[Partition, int]) -> bool:
    try:
        run(cluster.commit(group, positions))
    except WorkOrdersError as error:
        if "oordinator" in str(error):
            return False
        raise
    return True
