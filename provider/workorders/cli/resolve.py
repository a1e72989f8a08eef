"""`workorders resolve` and `workorders decisions`: decisions of operators where Kafka lost data."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workorders.cli import times
from workorders.cli.account import account, signed
from workorders.cli.confirmation import confirm
from workorders.cli.connections import connect, connect_to_write, kafka_settings
from workorders.cli.options import (
    Actor,
    AsJson,
    BeforeNumber,
    Database,
    DryRun,
    Limit,
    OfTrigger,
    Reason,
    TriggerName,
    Yes,
    argument,
    option,
    takes,
)
from workorders.cli.output import Column, json_object, note, print_json, print_page
from workorders.core import triggers
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.open import open_admin
from workorders.kafka.recovery.decisions import Decision, DecisionKind
from workorders.kafka.recovery.resolution import (
    DecisionRequest,
    RecordedDecision,
    apply,
    list_decisions,
    preview,
    remove_topic,
)
from workorders.kafka.status.partition_status import KafkaSource, source_of
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

_COLUMNS: Sequence[Column[RecordedDecision]] = (
    Column("decision", lambda decision: decision.id, number=True),
    Column("decided", lambda decision: decision.decided_at),
    Column("actor", lambda decision: signed(decision.actor, decision.account)),
    Column("trigger", lambda decision: decision.trigger),
    Column("partition", lambda decision: f"{decision.topic} {decision.partition}"),
    Column("kind", lambda decision: decision.kind),
    Column("from", lambda decision: decision.from_offset, number=True),
    Column("to", lambda decision: decision.to_offset, number=True),
    Column("lost", lambda decision: _offsets(decision.lost_start, decision.lost_end)),
    Column("superseded batch", lambda decision: decision.superseded_batch_id, number=True),
    Column("reason", lambda decision: decision.reason),
)


@dataclass(frozen=True, kw_only=True)
class _Mode:
    """How a decision is shown, confirmed, and recorded."""

    reason: Reason
    actor: Actor = None
    dry_run: DryRun = False
    yes: Yes = False
    as_json: AsJson = False
    database: Database = None


@app.command("skip-lost")
@takes(mode=_Mode)
def skip_lost(
    trigger: TriggerName,
    topic: _Topic,
    *,
    partition: _Partitions = None,
    offset: Annotated[int | None, option("N", "First new offset, only for a truncated log.", "--offset", min=0)] = None,
    mode: _Mode,
) -> None:
    """Skip messages that Kafka has lost.

    Reading continues at the first offset that Kafka still has, or at the end of a truncated log. Shows which offsets
    get no work order, and asks for confirmation.

    \b
    Examples:
      workorders resolve skip-lost orders orders --partition 2 --reason "retention was 1 h" --dry-run
      workorders resolve skip-lost orders orders --reason "broker 3 lost its disk" --yes
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    _resolve(DecisionRequest(DecisionKind.SKIP_LOST, trigger, topic, tuple(partition or ()), offset), mode)


@app.command("accept-topic")
@takes(mode=_Mode)
def accept_topic(
    trigger: TriggerName,
    topic: _Topic,
    *,
    partition: _Partitions = None,
    offset: Annotated[
        int | None, option("N", "First offset to read; the new topic's first one if not given.", "--offset", min=0)
    ] = None,
    mode: _Mode,
) -> None:
    """Follow a topic that was re-created under its name.

    Work orders of the old topic stay; the new topic's offsets are other messages.

    \b
    Example:
      workorders resolve accept-topic orders orders --reason "re-created with 12 partitions"
    """  # noqa: D301 - as above
    _resolve(DecisionRequest(DecisionKind.ACCEPT_TOPIC, trigger, topic, tuple(partition or ()), offset), mode)


@app.command("seek")
@takes(mode=_Mode)
def seek(
    trigger: TriggerName,
    topic: _Topic,
    *,
    partition: Annotated[list[int], option("N", "Partition number, repeatable.", "--partition", min=0)],
    offset: Annotated[int | None, option("N", "Next offset to read.", "--offset", min=0)] = None,
    time: Annotated[
        datetime | None,
        option(
            "TIME",
            "Instead: first message since 15m, 2h or 7d ago, or 2026-03-01T14:30.",
            "--time",
            parser=times.option,
        ),
    ] = None,
    mode: _Mode,
) -> None:
    """Continue at an offset or a time, forward or back.

    Forward skips messages, which get no work order. Back reads messages again: those that have a work order keep it,
    and the others get one. A time means the first message at or after it, by the messages' timestamps; if there is
    none, reading continues at the end.

    \b
    Examples:
      workorders resolve seek orders orders --partition 2 --offset 5000 --reason "rows were deleted by mistake"
      workorders resolve seek orders orders --partition 2 --time 2026-03-01T14:30 --reason "wrong data before"
    """  # noqa: D301 - as above
    if (offset is None) == (time is None):
        raise typer.BadParameter("give --offset or --time.")
    _resolve(DecisionRequest(DecisionKind.SEEK, trigger, topic, tuple(partition), offset, time), mode)


@app.command("remove-topic")
def remove_deleted_topic(trigger: TriggerName, topic: _Topic, *, yes: Yes = False, database: Database = None) -> None:
    """Remove a deleted topic from the ledger.

    Only for a topic that Kafka does not have and that no batch holds. Its work orders stay.

    \b
    Example:
      workorders resolve remove-topic orders orders-2025
    """  # noqa: D301 - as above
    with connect_to_write(database) as connection:
        cluster = _open_cluster(source_of(connection, trigger))
        confirm(f"Topic {safe(topic)} will be removed from the ledger of trigger {trigger}.", yes=yes)
        removed = remove_topic(connection, cluster, trigger, topic)
    print(f"Removed {removed} partitions of topic {safe(topic)} from the ledger of trigger {trigger}.")


@decisions.command("list")
def list_(
    trigger: OfTrigger = None,
    limit: Limit = 20,
    before: BeforeNumber = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List the decisions of operators, newest first.

    \b
    Example:
      workorders decisions list --trigger orders
    """  # noqa: D301 - as above
    with connect(database) as connection:
        if trigger is not None:
            triggers.find(connection, trigger)  # an unknown name is an error and not an empty list
        found = list_decisions(connection, trigger, before=before, limit=limit)
    if as_json:
        keys = {"id": "decision", "superseded_batch_id": "superseded_batch"}
        print_json([json_object(decision, **keys) for decision in found])
    else:
        print_page(_COLUMNS, found, "decisions list", limit=limit, trigger=trigger)


def _open_cluster(source: KafkaSource) -> "KafkaAdmin":
    try:
        return open_admin(source.kafka_connection, kafka_settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} Nothing was changed.") from error


def _resolve(request: DecisionRequest, mode: _Mode) -> None:
    if mode.as_json and not (mode.dry_run or mode.yes):
        raise typer.BadParameter("--json cannot ask for confirmation, so it needs --dry-run or --yes.")
    with connect_to_write(mode.database) as connection:
        source = source_of(connection, request.trigger)
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
        confirm(yes=mode.yes)
        me = account()
        applied = apply(
            connection, cluster, found, actor=mode.actor or me, reason=mode.reason, group=source.group, account=me
        )
    if mode.as_json:
        print_json({"applied": True, "decisions": [_json(decision, number) for number, decision in applied.decisions]})
    else:
        numbers = ", ".join(str(number) for number, _ in applied.decisions)
        print(f"Applied and recorded as decision {numbers}; see `workorders decisions list`.")
    for warning in applied.warnings:
        note(warning)


def _json(decision: Decision, number: int | None) -> dict[str, Any]:
    return {"decision": number, "trigger": decision.state.trigger, **decision.facts, "sentence": str(decision)}


def _offsets(start: int | None, end: int | None) -> str:
    return "" if start is None else f"[{start}, {end})"
