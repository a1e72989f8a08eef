"""`workorders resolve` and `workorders decisions`: decisions of operators where Kafka lost data."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workorders.cli.connections import connect, connect_to_write, kafka_settings
from workorders.cli.options import (
    Change,
    Listing,
    OfTrigger,
    PreviewedChange,
    TriggerName,
    argument,
    option,
    parse_time,
    takes,
)
from workorders.cli.output import note, print_json, show_page
from workorders.core import triggers
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.settings import open_admin
from workorders.kafka.recovery.decisions import Decision, DecisionKind
from workorders.kafka.recovery.resolution import (
    DecisionRequest,
    RecordedDecision,
    apply,
    list_decisions,
    preview,
    remove_topic,
)
from workorders.kafka.status import KafkaSource, kafka_sources
from workorders.visible_text import safe

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin

app = typer.Typer(no_args_is_help=True)
decisions = typer.Typer(no_args_is_help=True)

_Topic = Annotated[str, argument("TOPIC", "Name of the topic.")]
_Partitions = Annotated[
    list[int] | None,
    option("N", "Partition number, repeatable; all that need the decision if not given.", "--partition", min=0),
]


@app.command("skip-lost")
@takes(mode=PreviewedChange)
def skip_lost(
    trigger: TriggerName,
    topic: _Topic,
    *,
    partition: _Partitions = None,
    offset: Annotated[int | None, option("N", "First new offset, only for a truncated log.", "--offset", min=0)] = None,
    mode: PreviewedChange,
) -> None:
    """Skip messages that Kafka has lost.

    Reading continues at the first offset that Kafka still has, or at the end of a truncated log. Shows which offsets
    get no work order, and asks for confirmation.

    Examples:
      workorders resolve skip-lost orders orders --partition 2 --reason "retention was 1 h" --dry-run
      workorders resolve skip-lost orders orders --reason "broker 3 lost its disk" --yes
    """
    _resolve(DecisionRequest(DecisionKind.SKIP_LOST, trigger, topic, tuple(partition or ()), offset), mode)


@app.command("accept-topic")
@takes(mode=PreviewedChange)
def accept_topic(
    trigger: TriggerName,
    topic: _Topic,
    *,
    partition: _Partitions = None,
    offset: Annotated[
        int | None, option("N", "First offset to read; the new topic's first one if not given.", "--offset", min=0)
    ] = None,
    mode: PreviewedChange,
) -> None:
    """Follow a topic that was re-created under its name.

    Work orders of the old topic stay; the new topic's offsets are other messages.

    Example:
      workorders resolve accept-topic orders orders --reason "re-created with 12 partitions"
    """
    _resolve(DecisionRequest(DecisionKind.ACCEPT_TOPIC, trigger, topic, tuple(partition or ()), offset), mode)


@app.command("seek")
@takes(mode=PreviewedChange)
def seek(
    trigger: TriggerName,
    topic: _Topic,
    *,
    partition: Annotated[list[int], option("N", "Partition number, repeatable.", "--partition", min=0)],
    offset: Annotated[int | None, option("N", "Next offset to read.", "--offset", min=0)] = None,
    time: Annotated[
        datetime | None,
        option(
            "TIME", "Instead: first message since 15m, 2h or 7d ago, or 2026-03-01T14:30.", "--time", parser=parse_time
        ),
    ] = None,
    mode: PreviewedChange,
) -> None:
    """Continue at an offset or a time, forward or back.

    Forward skips messages, which get no work order. Back reads messages again: those that have a work order keep it,
    and the others get one. A time means the first message at or after it, by the messages' timestamps; if there is
    none, reading continues at the end.

    Examples:
      workorders resolve seek orders orders --partition 2 --offset 5000 --reason "rows were deleted by mistake"
      workorders resolve seek orders orders --partition 2 --time 2026-03-01T14:30 --reason "wrong data before"
    """
    if (offset is None) == (time is None):
        raise typer.BadParameter("give --offset or --time.")
    _resolve(DecisionRequest(DecisionKind.SEEK, trigger, topic, tuple(partition), offset, time), mode)


@app.command("remove-topic")
@takes(change=Change)
def remove_deleted_topic(trigger: TriggerName, topic: _Topic, *, change: Change) -> None:
    """Remove a deleted topic from the ledger.

    Only for a topic that Kafka does not have and that no batch holds. Its work orders stay.

    Example:
      workorders resolve remove-topic orders orders-2025 --reason "moved to orders-2026"
    """
    with connect_to_write(change.database) as connection:
        (source,) = kafka_sources(connection, trigger)
        cluster = _open_cluster(source)
        connection.rollback()  # no transaction stays open while a person decides
        change.confirm(f"Topic {safe(topic)} will be removed from the ledger of trigger {trigger}.")
        change.record(connection, "resolve remove-topic", trigger=trigger, topic=topic)
        removed = remove_topic(connection, cluster, trigger, topic)
    print(f"Removed {removed} partitions of topic {safe(topic)} from the ledger of trigger {trigger}.")


@decisions.command("list")
@takes(listing=Listing)
def list_(*, trigger: OfTrigger = None, listing: Listing) -> None:
    """List the decisions of operators, newest first.

    Example:
      workorders decisions list --trigger orders
    """
    with connect(listing.database) as connection:
        if trigger is not None:
            triggers.find(connection, trigger)  # an unknown name is an error and not an empty list
        found = list_decisions(connection, trigger, before=listing.before, limit=listing.limit)
    show_page(RecordedDecision, found, "decisions list", listing, trigger=trigger)


def _open_cluster(source: KafkaSource) -> "KafkaAdmin":
    try:
        return open_admin(source.kafka_connection, kafka_settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} Nothing was changed.") from error


def _resolve(request: DecisionRequest, mode: PreviewedChange) -> None:
    with connect_to_write(mode.database) as connection:
        (source,) = kafka_sources(connection, request.trigger)
        connection.rollback()
        cluster = _open_cluster(source)
        found = preview(connection, cluster, request)
        if mode.as_json and mode.dry_run:
            print_json({"applied": False, "decisions": [_json(decision, None) for decision in found]})
            return
        if not mode.as_json:
            for decision in found:
                print(safe(str(decision)))
        if mode.dry_run:
            print("Nothing was changed.")
            return
        mode.confirm()
        numbers, warnings = apply(connection, cluster, found, mode.by, group=source.consumer_group)
    if mode.as_json:
        print_json({"applied": True, "decisions": list(map(_json, found, numbers))})
    else:
        shown = ", ".join(map(str, numbers))
        print(f"Applied and recorded as decision {shown}; see `workorders decisions list`.")
    for warning in warnings:
        note(warning)


def _json(decision: Decision, number: int | None) -> dict[str, Any]:
    return {"decision": number, "trigger": decision.state.trigger, **decision.facts, "sentence": str(decision)}
