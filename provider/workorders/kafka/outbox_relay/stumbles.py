"""What a producer may have been lost over, remembered until it is known what became of its batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.bisection import Careful
from workorders.kafka.outbox_relay.context import Tools
from workorders.kafka.outbox_relay.delivery_errors import Refusal
from workorders.kafka.outbox_relay.producer import SenderLostError
from workorders.kafka.outbox_relay.quarantine import hold_refused, hold_topics
from workorders.outbox.store.holds import DueHold
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.rows import Row


@dataclass(slots=True)
class Stumbles:
    """Message and topics to hold, so that the next producer does not stumble over them at once."""

    message: Refusal | None = None
    topics: dict[str, str] = field(default_factory=dict)

    def note(self, error: SenderLostError, rows: Sequence[Row], careful: Careful, due: DueHold | None) -> None:
        """Remember what a batch was lost over; what was tried again needs no other witness.

        Args:
            error: how the producer was lost.
            rows: the batch.
            careful: knows which of its rows is closed in.
            due: what was tried again with it.
        """
        if error.suspicion is not None:
            self.message = careful.closed_in(error.suspicion, rows)
            self.topics = error.suspicion.topics
        elif due is not None and due.kind == "topic":
            self.topics = {due.topic: str(error)}

    def hold(self, connection: Connection, lease: Lease, tools: Tools) -> None:
        """Hold them; no batch may be open.

        Raises:
            OutboxFencedError: the lease is somebody else's by now; nothing was changed.
        """
        message, topics = self.message, self.topics
        self.message, self.topics = None, {}
        if message is not None:
            hold_refused(connection, lease, tools, message)
        if topics:
            hold_topics(connection, lease, tools, topics)
