"""`workorders outbox`: messages that wait for Kafka, holds, and operators' decisions."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

import typer

from workorders.cli.confirmation import confirm
from workorders.cli.connections import connect, connect_to_write
from workorders.cli.options import AsJson, Database, Yes, argument, option
from workorders.cli.output import Column, count, print_json, print_table
from workorders.outbox import admin
from workorders.outbox.admin import Hold, ShardStatus, TopicStatus

app = typer.Typer(no_args_is_help=True)

_KEY_BYTES_SHOWN: Final = 40

_TOPIC_COLUMNS: Sequence[Column[TopicStatus]] = (
    Column("topic", lambda topic: topic.topic),
    Column("waiting", lambda topic: count(topic.waiting), number=True),
    Column(
        "oldest", lambda topic: None if topic.oldest_seconds is None else f"{topic.oldest_seconds:,.1f} s", number=True
    ),
    Column("held", lambda topic: count(topic.held), number=True),
    Column("sent", lambda topic: count(topic.sent), number=True),
    Column("compacted", lambda topic: count(topic.compacted), number=True),
    Column("failed", lambda topic: count(topic.failed), number=True),
    Column("last sent", lambda topic: topic.last_sent_at),
)
_HOLD_COLUMNS: Sequence[Column[Hold]] = (
    Column("hold", lambda hold: hold.id, number=True),
    Column("scope", lambda hold: hold.kind),
    Column("topic", lambda hold: hold.topic),
    Column("key", lambda hold: _text(hold.key and hold.key[:_KEY_BYTES_SHOWN])),
    Column("messages", lambda hold: count(hold.messages), number=True),
    Column("tries", lambda hold: hold.tries, number=True),
    Column("since", lambda hold: hold.since),
    Column("next try", lambda hold: hold.next_try_at),
    Column("reason", lambda hold: hold.reason),
)
_SHARD_COLUMNS: Sequence[Column[ShardStatus]] = (
    Column("shard", lambda shard: shard.shard, number=True),
    Column("owner", lambda shard: shard.owner and f"{shard.owner}{' (expired)' if shard.is_expired else ''}"),
    Column("leased until", lambda shard: shard.leased_until),
    Column("epoch", lambda shard: shard.epoch, number=True),
    Column("last batch", lambda shard: count(shard.last_batch), number=True),
    Column("in flight", lambda shard: count(shard.in_flight), number=True),
    Column("error", lambda shard: shard.last_error),
)


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
        holds = [asdict(hold) | {"key": _text(hold.key)} for hold in held]
        print_json({"topics": topics, "holds": holds, "shards": shards})
    else:
        print_table(_TOPIC_COLUMNS, topics)
        print()
        print_table(_SHARD_COLUMNS, shards)
        if held:
            print()
            print_table(_HOLD_COLUMNS, held)
    if held or any(shard.last_error for shard in shards):
        raise typer.Exit(1)


@app.command()
def release(
    hold: Annotated[int | None, argument("HOLD", "Number of the hold.")] = None,
    shard: Annotated[int | None, option("N", "Number of a stalled shard, instead of a hold.", "--shard")] = None,
    sent: Annotated[
        bool | None,
        typer.Option("--sent/--unsent", help="Whether the shard's open batch is in Kafka.", show_default=False),
    ] = None,
    yes: Yes = False,
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
    if sent:
        confirm(f"The messages of the open batch of shard {shard} will be deleted, because they are in Kafka.", yes=yes)
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
    hold: Annotated[int, argument("HOLD", "Number of the hold.")],
    yes: Yes = False,
    database: Database = None,
) -> None:
    """Delete the messages of a hold, unsent and permanently.

    Later messages of its key then continue.

    \b
    Example:
      workorders outbox purge 17
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    confirm(f"The messages of hold {hold} will be deleted, and never sent.", yes=yes)
    with connect_to_write(database) as connection:
        messages = admin.purge_hold(connection, hold)
    print(f"{count(messages)} messages of hold {hold} were deleted unsent.")


@app.command("reset-identity")
def reset_identity(yes: Yes = False, database: Database = None) -> None:
    """Let the next relay record another identity.

    That is: number of shards, cluster, checkpoint topic, and transactional-id prefix. First pause all Dags of the
    relay and change its file. Refused while a relay is at work or has left an open batch.

    \b
    Example:
      workorders outbox reset-identity
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    confirm("The next relay will record another identity, and will not fence a relay of the old one.", yes=yes)
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


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode(errors="replace")
