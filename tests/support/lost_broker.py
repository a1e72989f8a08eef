"""What a broker that is gone for good leaves behind."""

from collections.abc import Sequence
from dataclasses import dataclass

from workorders.kafka.client.admin import KafkaAdmin


@dataclass(frozen=True)
class LostBroker:
    """A broker that is gone for good, beside one that is not."""

    topic: str
    """Without a leader since; it has five messages."""
    clients: Sequence[KafkaAdmin]
    """Clients from before; some take the lost broker for the controller."""
