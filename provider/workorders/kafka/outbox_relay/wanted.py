"""What a batch may hold, by what it is for."""

from collections.abc import Sequence

from workorders.kafka.outbox_relay.definition import RelayDefinition
from workorders.outbox.store.claims import Wanted
from workorders.outbox.store.holds import DueHold


def of_hold(definition: RelayDefinition, due: DueHold) -> Wanted:
    """Return what tries again for a hold whose time has come: one message alone."""
    return Wanted(
        messages=1,
        bytes=1,
        only=due.topic,
        hold=due.id if due.kind == "key" else None,
        event_ids=definition.event_id_header is not None,
    )


def of_topics(definition: RelayDefinition, messages: int, *, only: str | None, without: Sequence[str]) -> Wanted:
    """Return what goes together of one topic, or of all but some."""
    return Wanted(
        messages=messages,
        bytes=definition.batch_bytes,
        only=only,
        without=without,
        event_ids=definition.event_id_header is not None,
    )
