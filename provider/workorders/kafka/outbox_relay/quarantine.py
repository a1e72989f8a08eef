"""What cannot be sent steps aside, and people are told."""

from collections.abc import Mapping

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.context import Tools
from workorders.kafka.outbox_relay.delivery_errors import Refusal
from workorders.outbox.store import holds
from workorders.outbox.store.leases import Lease


def hold_topics(connection: Connection, lease: Lease, tools: Tools, topics: Mapping[str, str]) -> None:
    """Give the open batch back, hold topics for the reasons given, and report it.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    for topic, reason in topics.items():
        holds.hold_topic(connection, lease, topic, reason)
        tools.report(
            f"Topic {topic} takes no messages: {reason}. They wait, and are tried again in a minute, then less "
            f"often; other topics go on."
        )


def hold_refused(connection: Connection, lease: Lease, tools: Tools, refused: Refusal) -> None:
    """Give the open batch back, put the refused message aside with its key or alone, and report it.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    row = refused.row
    topic = tools.definition.topics.get(row.topic)
    whole_key = topic is None or topic.on_refused == "hold"
    holds.hold_row(connection, lease, row, refused.reason, whole_key=whole_key)
    later = "later ones of its key wait behind it" if whole_key and row.key is not None else "it was set aside"
    tools.report(
        f"Message {row.id} for topic {row.topic} was refused: {refused.reason}. It was not sent and is "
        f"kept, {later}, all others go on; see `workorders outbox status`."
    )
