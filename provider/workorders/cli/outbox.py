"""`workorders outbox`: what waits for Kafka, what is held, and what people decide about it."""

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
    Column("of"),
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
    Column("under way", number=True),
    Column("error"),
)

HoldNumber = Annotated[int | None, typer.Argument(metavar="HOLD", help="Number of the hold.", show_default=False)]


@app.command()
def status(as_json: AsJson = False, database: Database = None) -> None:
    """Show what waits by topic, what is held and why, and who works on which shard.

    Every waiting row is counted. Ends with 1 when something is held, or the last work on a shard ended with an error.

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
        int | None, typer.Option(metavar="N", help="A shard that stands still, in place of a hold.", show_default=False)
    ] = None,
    sent: Annotated[
        bool | None,
        typer.Option("--sent/--unsent", help="Whether the shard's open batch is in Kafka.", show_default=False),
    ] = None,
    database: Database = None,
) -> None:
    """Let something held go on: its messages are sent at the next turn, in their place in the order.

    With --shard it decides about a shard whose markers in Kafka contradict the database. Look into the topics first:
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
            print(f"Hold {hold} has ended; {count(messages)} messages came back.")
        elif shard is not None and sent is not None:
            messages = admin.release_shard(connection, shard, sent=sent)
            done = "were deleted as sent" if sent else "are sent by the next relay"
            print(f"Shard {shard} goes on; {count(messages)} messages of its open batch {done}.")


@app.command()
def purge(
    hold: Annotated[int, typer.Argument(metavar="HOLD", help="Number of the hold.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Really delete them.")] = False,
    database: Database = None,
) -> None:
    """Delete the messages of a hold unsent, for good. Later messages of the key then go on.

    \b
    Example:
      workorders outbox purge 17 --yes
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    if not yes:
        raise typer.BadParameter("this deletes messages that were never sent; say --yes.")
    with connect_to_write(database) as connection:
        messages = admin.purge_hold(connection, hold)
    print(f"{count(messages)} messages of hold {hold} were deleted unsent.")


@app.command("reset-identity")
def reset_identity(database: Database = None) -> None:
    """Let the next relay record another number of shards, cluster, topic of markers or transactional ids.

    Pause all Dags of the relay first, and change its file. Refused while a relay is at work or has left a batch.

    \b
    Example:
      workorders outbox reset-identity
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect_to_write(database) as connection:
        released = admin.reset_identity(connection)
    if released:
        shards = ", ".join(map(str, released))
        print(
            f"The next relay records its cluster and its topic of markers. The number of shards and the transactional "
            f"ids stay: no relay has fenced the old producers of shard {shards} since its release. To change them, let "
            f"a relay run once, pause it, and run this again."
        )
    else:
        print("The next relay records its number of shards, cluster, topic of markers and transactional ids.")


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
    owner = "" if shard.owner is None else f"{shard.owner}{' (gone)' if shard.run_out else ''}"
    return (
        str(shard.shard),
        owner,
        times.show(shard.leased_until),
        str(shard.epoch),
        count(shard.last_batch),
        count(shard.under_way),
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
