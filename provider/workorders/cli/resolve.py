"""`workorders resolve` and `workorders decisions`: decisions of operators where Kafka lost data."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workorders.cli import times
from workorders.cli.account import account, signed
from workorders.cli.connections import Database, connect, connect_to_write, kafka_settings
from workorders.cli.output import AsJson, Column, note, print_json, print_table, safe
from workorders.core import triggers
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.open import open_admin
from workorders.kafka.recovery.decisions import Decision, DecisionKind
from workorders.kafka.recovery.resolution import (
    AppliedDecisions,
    DecisionRequest,
    RecordedDecision,
    apply,
    list_decisions,
    preview,
)
from workorders.kafka.status.partition_status import source_of

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin

app = typer.Typer(no_args_is_help=True)

Trigger = Annotated[str, typer.Argument(metavar="TRIGGER", show_default=False, help="Name of the trigger.")]
Topic = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="Name of the topic.")]
Partitions = Annotated[
    list[int] | None,
    typer.Option(
        "--partition",
        metavar="N",
        min=0,
        show_default=False,
        help="Partition number, repeatable; all that need the decision if not given.",
    ),
]
Reason = Annotated[str, typer.Option(metavar="TEXT", show_default=False, help="Reason, which is recorded.")]
Actor = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default=False, help="Name of the person who decides; your account if not given."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the decisions and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Apply without confirmation.")]

_COLUMNS = (
    Column("decision", number=True),
    Column("decided"),
    Column("actor"),
    Column("trigger"),
    Column("partition"),
    Column("kind"),
    Column("from", number=True),
    Column("to", number=True),
    Column("lost"),
    Column("superseded batch", number=True),
    Column("reason"),
)


@app.command("skip-lost")
def skip_lost(
    trigger: Trigger,
    topic: Topic,
    *,
    reason: Reason,
    partition: Partitions = None,
    offset: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help="First new offset, only for a truncated log.",
        ),
    ] = None,
    actor: Actor = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Skip messages that Kafka has lost.

    Reading continues at the first offset that Kafka still has, or at the end of a truncated log. Shows which offsets
    get no work order, and asks for confirmation.

    \b
    Examples:
      workorders resolve skip-lost orders orders --partition 2 --reason "retention was 1 h" --dry-run
      workorders resolve skip-lost orders orders --reason "broker 3 lost its disk" --yes
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    request = DecisionRequest(DecisionKind.SKIP_LOST, trigger, topic, tuple(partition or ()), offset)
    _resolve(request, reason=reason, actor=actor, dry_run=dry_run, yes=yes, as_json=as_json, database=database)


@app.command("accept-topic")
def accept_topic(
    trigger: Trigger,
    topic: Topic,
    *,
    reason: Reason,
    partition: Partitions = None,
    offset: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, show_default=False, help="First offset to read; the new topic's first one if not given."
        ),
    ] = None,
    actor: Actor = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Follow a topic that was re-created under its name.

    Work orders of the old topic stay; the new topic's offsets are other messages.

    \b
    Example:
      workorders resolve accept-topic orders orders --reason "re-created with 12 partitions"
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    request = DecisionRequest(DecisionKind.ACCEPT_TOPIC, trigger, topic, tuple(partition or ()), offset)
    _resolve(request, reason=reason, actor=actor, dry_run=dry_run, yes=yes, as_json=as_json, database=database)


@app.command("seek")
def seek(
    trigger: Trigger,
    topic: Topic,
    *,
    reason: Reason,
    partition: Annotated[
        list[int],
        typer.Option("--partition", metavar="N", min=0, show_default=False, help="Partition number, repeatable."),
    ],
    offset: Annotated[int, typer.Option(metavar="N", min=0, show_default=False, help="Next offset to read.")],
    actor: Actor = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Continue at an offset, forward or back.

    Forward skips messages, which get no work order. Back reads messages again: those that have a work order keep it,
    and the others get one.

    \b
    Example:
      workorders resolve seek orders orders --partition 2 --offset 5000 --reason "rows were deleted by mistake"
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    request = DecisionRequest(DecisionKind.SEEK, trigger, topic, tuple(partition), offset)
    _resolve(request, reason=reason, actor=actor, dry_run=dry_run, yes=yes, as_json=as_json, database=database)


def decisions(
    trigger: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only decisions about this trigger.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Number of decisions.")] = 20,
    before: Annotated[
        int | None, typer.Option(metavar="DECISION", help="Only decisions before this one.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List the decisions of operators, newest first.

    \b
    Example:
      workorders decisions --trigger orders
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        if trigger is not None:
            triggers.find(connection, trigger)  # an unknown name is an error and not an empty list
        found = list_decisions(connection, trigger, before=before, limit=limit)
    if as_json:
        print_json([_recorded_json(decision) for decision in found])
        return
    print_table(_COLUMNS, [_cells(decision) for decision in found])
    if len(found) == limit:
        filters = [] if trigger is None else ["--trigger", trigger]
        next_page = ["workorders", "decisions", *filters, "--limit", str(limit), "--before", str(found[-1].id)]
        print(f"\nNext page: {shlex.join(next_page)}")


def _resolve(
    request: DecisionRequest,
    *,
    reason: str,
    actor: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    database: str | None,
) -> None:
    if as_json and not (dry_run or yes):
        raise typer.BadParameter("--json cannot ask for confirmation, so it needs --dry-run or --yes.")
    with connect_to_write(database) as connection:
        source = source_of(connection, request.trigger)
        connection.rollback()
        cluster = _cluster(source.kafka_connection)
        decisions = preview(connection, cluster, request)
        if not as_json:
            for decision in decisions:
                print(safe(str(decision)))
        if dry_run:
            if as_json:
                print_json({"applied": False, "decisions": [_json(decision, None) for decision in decisions]})
            else:
                print("Nothing was changed.")
            return
        if not yes and not typer.confirm("Apply?"):
            print("Nothing was changed.")
            raise typer.Exit(1)
        me = account()
        applied = apply(
            connection, cluster, decisions, actor=actor or me, reason=reason, group=source.group, account=me
        )
    _report(applied, as_json=as_json)


def _cluster(connection_id: str) -> "KafkaAdmin":
    try:
        return open_admin(connection_id, kafka_settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} Nothing was changed.") from error


def _report(applied: AppliedDecisions, *, as_json: bool) -> None:
    if as_json:
        print_json({"applied": True, "decisions": [_json(decision, number) for number, decision in applied.decisions]})
    else:
        numbers = ", ".join(str(number) for number, _ in applied.decisions)
        print(f"Applied and recorded as decision {numbers}; see `workorders decisions`.")
    for warning in applied.warnings:
        note(warning)


def _json(decision: Decision, number: int | None) -> dict[str, Any]:
    state = decision.state
    lost_start, lost_end = decision.lost or (None, None)
    return {
        "decision": number,
        "trigger": state.trigger,
        "topic": state.partition.topic,
        "partition": state.partition.partition,
        "kind": decision.kind.value,
        "from_topic_id": state.partition.topic_id,
        "from_offset": state.next_offset,
        "to_topic_id": decision.to.topic_id,
        "to_offset": decision.to_offset,
        "lost_start": lost_start,
        "lost_end": lost_end,
        "superseded_batch": state.batch_id,
        "sentence": str(decision),
    }


def _cells(decision: RecordedDecision) -> tuple[str, ...]:
    lost = "" if decision.lost_start is None else f"[{decision.lost_start}, {decision.lost_end})"
    return (
        str(decision.id),
        times.show(decision.decided_at),
        signed(decision.actor, decision.account),
        decision.trigger,
        f"{decision.topic} {decision.partition}",
        decision.kind,
        str(decision.from_offset),
        str(decision.to_offset),
        lost,
        "" if decision.superseded_batch_id is None else str(decision.superseded_batch_id),
        decision.reason,
    )


def _recorded_json(decision: RecordedDecision) -> dict[str, Any]:
    return {
        "decision": decision.id,
        "decided_at": decision.decided_at,
        "actor": decision.actor,
        "account": decision.account,
        "reason": decision.reason,
        "trigger": decision.trigger,
        "topic": decision.topic,
        "partition": decision.partition,
        "kind": decision.kind,
        "from_topic_id": decision.from_topic_id,
        "from_offset": decision.from_offset,
        "to_topic_id": decision.to_topic_id,
        "to_offset": decision.to_offset,
        "lost_start": decision.lost_start,
        "lost_end": decision.lost_end,
        "superseded_batch": decision.superseded_batch_id,
    }
