"""`workorders outbox`: messages that wait for Kafka, holds, and operators' decisions."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from workorders.cli import times
from workorders.cli.connections import Database, connect, connect_to_write
from workorders.cli.output import AsJson, Column, count, print_json, print_table
from workorders.outbox import admin
from workorders.outbox.admin import Hold, ShardStatus, TopicStatus

app = typer.Typer(no_args_is_help=True)

_KEY_SHOWN = 40

_TOPIC_COLUMNS = (
    Column("topic"),
    Column("waiting", number=True),
    Column("oldest", number=True),
    Column("held", number=True),
    Column("sent", number=True),
    Column("compacted", number=True),
    Column("failed", number=True),
    Column("last sent"),
)
_HOLD_COLUMNS = (
    Column("hold", number=True),
    Column("scope"),
    Column("topic"),
    Column("key"),
    Column("messages", number=True),
    Column("tries", number=True),
    Column("since"),
    Column("next try"),
    Column("reason"),
)
_SHARD_COLUMNS = (
    Column("shard", number=True),
    Column("owner"),
    Column("leased until"),
    Column("epoch", number=True),
    Column("last batch", number=True),
    Column("in flight", number=True),
    Column("error"),
)

HoldNumber = Annotated[int | None, typer.Argument(metavar="HOLD", help="Number of the hold.", show_default=False)]


@app.command()
def status(as_json: AsJson = False, database: Database = None) -> None:
    """Show waiting messages by topic, holds, and shards.

    Counts every waiting row. Exits with 1 if anything is held, or the last relay of a shard ended with an error.

    \b
    Examples:
      workorders outbox status
      workorders outbox status --json
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        topics, held, shards = admin.topics(connection), admin.holds(connection), admin.shards(connection)
    if as_json:
        print_json({"topics": topics, "holds": [_hold_json(hold) for hold in held], "shards": shards})
    else:
        _print(topics, held, shards)
    if held or any(shard.last_error for shard in shards):
        raise typer.Exit(1)


@app.command()
def release(
    hold: HoldNumber = None,
    shard: Annotated[
        int | None, typer.Option(metavar="N", help="Number of a stalled shard, instead of a hold.", show_default=False)
    ] = None,
    sent: Annotated[
        bool | None,
        typer.Option("--sent/--unsent", help="Whether the shard's open batch is in Kafka.", show_default=False),
    ] = None,
    database: Database = None,
) -> None:
    """End a hold, so that its messages are sent in their order.

    With --shard: decide about a shard whose checkpoint in Kafka contradicts the database. Look into the topics first:
    --sent deletes the open batch, --unsent sends it.

    \b
    Examples:
      workorders outbox release 17
      workorders outbox release --shard 0 --unsent
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    if (hold is None) == (shard is None) or (shard is None) != (sent is None):
        raise typer.BadParameter("name a hold, or a shard with --sent or --unsent.")
    with connect_to_write(database) as connection:
        if hold is not None:
            messages = admin.release_hold(connection, hold)
            print(f"Hold {hold} has ended; {count(messages)} of its messages wait again.")
        elif shard is not None and sent is not None:
            messages = admin.release_shard(connection, shard, sent=sent)
            done = "were deleted as sent" if sent else "are sent by the next relay"
            print(f"Shard {shard} continues; {count(messages)} messages of its open batch {done}.")


@app.command()
def purge(
    hold: Annotated[int, typer.Argument(metavar="HOLD", help="Number of the hold.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Delete without confirmation.")] = False,
    database: Database = None,
) -> None:
    """Delete the messages of a hold, unsent and permanently.

    Later messages of its key then continue.

    \b
    Example:
      workorders outbox purge 17 --yes
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    if not yes:
        raise typer.BadParameter("this deletes messages that were never sent; confirm with --yes.")
    with connect_to_write(database) as connection:
        messages = admin.purge_hold(connection, hold)
    print(f"{count(messages)} messages of hold {hold} were deleted unsent.")


@app.command("reset-identity")
def reset_identity(database: Database = None) -> None:
    """Let the next relay record another identity.

    That is: number of shards, cluster, checkpoint topic, and transactional-id prefix. First pause all Dags of the
    relay and change its file. Refused while a relay is at work or has left an open batch.

    \b
    Example:
      workorders outbox reset-identity
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect_to_write(database) as connection:
        released = admin.reset_identity(connection)
    if released:
        shards = ", ".join(map(str, released))
        print(
            f"The next relay records its cluster and checkpoint topic. The number of shards and the "
            f"transactional-id prefix stay: no relay has fenced the old producer of shard {shards} since its release. "
            f"To change them, run the relay once, pause it, and run this again."
        )
    else:
        print("The next relay records its number of shards, cluster, checkpoint topic and transactional-id prefix.")


def _print(topics: Sequence[TopicStatus], held: Sequence[Hold], shards: Sequence[ShardStatus]) -> None:
    print_table(_TOPIC_COLUMNS, [_topic_cells(topic) for topic in topics])
    print()
    print_table(_SHARD_COLUMNS, [_shard_cells(shard) for shard in shards])
    if held:
        print()
        print_table(_HOLD_COLUMNS, [_hold_cells(hold) for hold in held])


def _topic_cells(topic: TopicStatus) -> tuple[str, ...]:
    return (
        topic.topic,
        count(topic.waiting),
        "" if topic.oldest_seconds is None else f"{topic.oldest_seconds:,.1f} s",
        count(topic.held),
        count(topic.sent),
        count(topic.compacted),
        count(topic.failed),
        times.show(topic.last_sent_at),
    )


def _shard_cells(shard: ShardStatus) -> tuple[str, ...]:
    owner = "" if shard.owner is None else f"{shard.owner}{' (expired)' if shard.is_expired else ''}"
    return (
        str(shard.shard),
        owner,
        times.show(shard.leased_until),
        str(shard.epoch),
        count(shard.last_batch),
        count(shard.in_flight),
        shard.last_error or "",
    )


def _hold_cells(hold: Hold) -> tuple[str, ...]:
    return (
        str(hold.id),
        hold.kind,
        hold.topic,
        _key(hold),
        count(hold.messages),
        str(hold.tries),
        times.show(hold.since),
        times.show(hold.next_try_at),
        hold.reason,
    )


def _key(hold: Hold) -> str:
    return "" if hold.key is None else hold.key[:_KEY_SHOWN].decode(errors="replace")


def _hold_json(hold: Hold) -> dict[str, Any]:
    return {
        "id": hold.id,
        "kind": hold.kind,
        "topic": hold.topic,
        "key": None if hold.key is None else hold.key.decode(errors="replace"),
        "messages": hold.messages,
        "reason": hold.reason,
        "tries": hold.tries,
        "since": hold.since,
        "next_try_at": hold.next_try_at,
    }
