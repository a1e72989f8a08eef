"""`workorders resolve` and `workorders decisions`: what an operator decides where Kafka lost data."""

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
from workorders.kafka.recovery.decisions import Decision, Kind
from workorders.kafka.recovery.resolution import Made, RecordedDecision, Wish, consider, make, recorded
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
        help="Number of a partition; may be repeated. Left out, all partitions of the topic that call for it.",
    ),
]
Why = Annotated[str, typer.Option(metavar="TEXT", show_default=False, help="The reason; it is kept with the decision.")]
Who = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", show_default=False, help="Who decides; your account if not given, which is kept as well."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]

_COLUMNS = (
    Column("decision", number=True),
    Column("decided"),
    Column("who"),
    Column("trigger"),
    Column("partition"),
    Column("kind"),
    Column("from", number=True),
    Column("to", number=True),
    Column("lost"),
    Column("superseded batch", number=True),
    Column("why"),
)


@app.command()
def resume(
    trigger: Trigger,
    topic: Topic,
    *,
    why: Why,
    partition: Partitions = None,
    offset: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            show_default=False,
            help="Only for a log that was cut short: offset of the first message that is new.",
        ),
    ] = None,
    who: Who = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Go on behind messages that Kafka does not have any more.

    Where retention deleted messages unread, that is the first offset that Kafka still has; where a log was cut short,
    its end. Says first which offsets get no work order, and asks.

    \b
    Examples:
      workorders resolve resume orders orders --partition 2 --why "retention was 1 h" --dry-run
      workorders resolve resume orders orders --why "broker 3 lost its disk" --yes
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    wish = Wish(Kind.RESUME, trigger, topic, tuple(partition or ()), offset)
    _resolve(wish, why=why, who=who, dry_run=dry_run, yes=yes, as_json=as_json, database=database)


@app.command("accept-topic")
def accept_topic(
    trigger: Trigger,
    topic: Topic,
    *,
    why: Why,
    partition: Partitions = None,
    offset: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, show_default=False, help="Where to begin; the new topic's first offset if not given."
        ),
    ] = None,
    who: Who = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Follow a topic that was deleted and made again under its name.

    Work orders of the old topic stay, and none is taken for one of the new topic.

    \b
    Example:
      workorders resolve accept-topic orders orders --why "made again with 12 partitions"
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    wish = Wish(Kind.ACCEPT_TOPIC, trigger, topic, tuple(partition or ()), offset)
    _resolve(wish, why=why, who=who, dry_run=dry_run, yes=yes, as_json=as_json, database=database)


@app.command("start-over")
def start_over(
    trigger: Trigger,
    topic: Topic,
    *,
    why: Why,
    partition: Annotated[
        list[int],
        typer.Option(
            "--partition", metavar="N", min=0, show_default=False, help="Number of a partition; may be repeated."
        ),
    ],
    offset: Annotated[int, typer.Option(metavar="N", min=0, show_default=False, help="Where to go on.")],
    who: Who = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Go on from an offset, forward or back.

    Forward skips messages: they get no work order. Back reads messages again: those that have a work order keep it,
    and the others get one.

    \b
    Example:
      workorders resolve start-over orders orders --partition 2 --offset 5000 --why "rows were deleted by mistake"
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    wish = Wish(Kind.START_OVER, trigger, topic, tuple(partition), offset)
    _resolve(wish, why=why, who=who, dry_run=dry_run, yes=yes, as_json=as_json, database=database)


def decisions(
    trigger: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only decisions on this trigger.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="How many to show.")] = 20,
    before: Annotated[
        int | None, typer.Option(metavar="DECISION", help="Go on behind this decision.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List what operators decided, newest first.

    \b
    Example:
      workorders decisions --trigger orders
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        if trigger is not None:
            triggers.find(connection, trigger)  # says so when the name is wrong, in place of an empty list
        found = recorded(connection, trigger, before=before, limit=limit)
    if as_json:
        print_json([_recorded_json(decision) for decision in found])
        return
    print_table(_COLUMNS, [_cells(decision) for decision in found])
    if len(found) == limit:
        filters = [] if trigger is None else ["--trigger", trigger]
        next_page = ["workorders", "decisions", *filters, "--limit", str(limit), "--before", str(found[-1].id)]
        print(f"\nNext page: {shlex.join(next_page)}")


def _resolve(
    wish: Wish, *, why: str, who: str | None, dry_run: bool, yes: bool, as_json: bool, database: str | None
) -> None:
    if as_json and not (dry_run or yes):
        raise typer.BadParameter("--json asks nothing, so it needs --dry-run or --yes.")
    with connect_to_write(database) as connection:
        source = source_of(connection, wish.trigger)
        connection.rollback()
        cluster = _cluster(source.kafka_connection)
        considered = consider(connection, cluster, wish)
        if not as_json:
            for decision in considered:
                print(safe(str(decision)))
        if dry_run:
            if as_json:
                print_json({"made": False, "decisions": [_json(decision, None) for decision in considered]})
            else:
                print("Nothing was changed.")
            return
        if not yes and not typer.confirm("Do it?"):
            print("Nothing was changed.")
            raise typer.Exit(1)
        me = account()
        made = make(connection, cluster, considered, who=who or me, why=why, group=source.group, account=me)
    _report(made, as_json=as_json)


def _cluster(connection_id: str) -> "KafkaAdmin":
    try:
        return open_admin(connection_id, kafka_settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} Nothing was changed.") from error


def _report(made: Made, *, as_json: bool) -> None:
    if as_json:
        print_json({"made": True, "decisions": [_json(decision, number) for number, decision in made.decisions]})
    else:
        numbers = ", ".join(str(number) for number, _ in made.decisions)
        print(f"Done, and recorded as decision {numbers}; see `workorders decisions`.")
    for warning in made.warnings:
        note(warning)


def _json(decision: Decision, number: int | None) -> dict[str, Any]:
    standing = decision.standing
    lost_start, lost_end = decision.lost or (None, None)
    return {
        "decision": number,
        "trigger": standing.trigger,
        "topic": standing.partition.topic,
        "partition": standing.partition.partition,
        "kind": decision.kind.value,
        "from_topic_id": standing.partition.topic_id,
        "from_offset": standing.next_offset,
        "to_topic_id": decision.to.topic_id,
        "to_offset": decision.to_offset,
        "lost_start": lost_start,
        "lost_end": lost_end,
        "superseded_batch": standing.batch_id,
        "sentence": str(decision),
    }


def _cells(decision: RecordedDecision) -> tuple[str, ...]:
    lost = "" if decision.lost_start is None else f"[{decision.lost_start}, {decision.lost_end})"
    return (
        str(decision.id),
        times.show(decision.decided_at),
        signed(decision.who, decision.account),
        decision.trigger,
        f"{decision.topic} {decision.partition}",
        decision.kind,
        str(decision.from_offset),
        str(decision.to_offset),
        lost,
        "" if decision.superseded_batch_id is None else str(decision.superseded_batch_id),
        decision.why,
    )


def _recorded_json(decision: RecordedDecision) -> dict[str, Any]:
    return {
        "decision": decision.id,
        "decided_at": decision.decided_at,
        "who": decision.who,
        "account": decision.account,
        "why": decision.why,
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
