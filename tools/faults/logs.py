"""What Kafka's logs lose: by retention, and by a broker that comes back with less than it had."""

from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from faults.site import Site
from local_stack.waiting import wait_until
from support.topics import Topics

_SECONDS = 60.0


def expire(site: Site, topic: str) -> None:
    """Let everything in a topic be older than its retention, and wait until it is gone.

    Raises:
        AssertionError: it stayed.
    """
    admin = AdminClient(site.kafka_settings)
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_SECONDS)
    topics = Topics(site.kafka_settings)
    assert wait_until(lambda: all(topics.first_offsets(topic).values()), seconds=_SECONDS), f"{topic} did not expire"


def cut(site: Site, topic: str, partition: int) -> None:
    """Let the broker lose the second half of a partition, as a disk does that lied about what it had written."""
    kafka = site.stack.kafka
    kafka.kill()
    folder = site.stack.home / "kafka" / "data" / f"{topic}-{partition}"
    segment = max(folder.glob("*.log"))
    segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.snapshot")):
        index.unlink()
    _forget_recovery_points(folder.parent)
    kafka.start()


def _forget_recovery_points(data: Path) -> None:
    # With them, the broker would not read the log that lies before them again.
    for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (data / name).unlink(missing_ok=True)
