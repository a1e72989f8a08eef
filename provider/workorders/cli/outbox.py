"""`workorders outbox`: messages that wait for Kafka, holds, and operators' decisions."""

from typing import Annotated, Final

import typer

from workorders.cli.connections import connect, connect_to_write
from workorders.cli.options import AsJson, Change, Database, argument, option, takes
from workorders.cli.output import count, print_table, show_fields
from workorders.outbox import admin
from workorders.outbox.admin import OpenTopic, ShardStatus
from workorders.visible_text import safe

app = typer.Typer(no_args_is_help=True)

_SHARD_COLUMNS: Final = "shard owner is_leased leased_until epoch last_batch in_flight"


@app.command()
def status(as_json: AsJson = False, database: Database = None) -> None:
    """Show waiting messages by topic, holds, and shards.

    Counts every waiting row. Exits with 1 if anything is held, or the last relay of a shard ended with an error.

    Example:
      workorders outbox status
    """
    with connect(database) as connection:
        topics, shards, holds = admin.topics(connection), admin.shards(connection), admin.holds(connection)
    found = {"topics": topics, "shards": shards, "holds": holds}
    show_fields(found, as_json=as_json, columns={ShardStatus: _SHARD_COLUMNS})
    for shard in () if as_json else shards:
        if shard.last_error:
            print(safe(f"\nShard {shard.shard}: {shard.last_error}"))
    if holds or any(shard.last_error for shard in shards):
        raise typer.Exit(1)


@app.command()
@takes(change=Change)
def release(
    hold: Annotated[int | None, argument("HOLD", "Number of the hold.")] = None,
    *,
    shard: Annotated[int | None, option("N", "Number of a stalled shard, instead of a hold.", "--shard")] = None,
    sent: Annotated[
        bool | None,
        typer.Option("--sent/--unsent", help="Whether the shard's open batch is in Kafka.", show_default=False),
    ] = None,
    change: Change,
) -> None:
    """End a hold, so that its messages are sent in their order.

    With --shard: decide about a shard whose checkpoint in Kafka contradicts the database. Look into the topics first,
    which it prints: --sent deletes the open batch, --unsent sends it.

    Examples:
      workorders outbox release 17 --reason "the topic exists now"
      workorders outbox release --shard 0 --unsent --reason "the topic has none of them"
    """
    if (hold is None) == (shard is None) or (shard is None) != (sent is None):
        raise typer.BadParameter("name a hold, or a shard with --sent or --unsent.")
    with connect_to_write(change.database) as connection:
        if hold is not None:
            change.confirm(f"Hold {hold} will end, and its messages will be sent.")
            change.record(connection, "outbox release", hold=hold)
            messages = admin.release_hold(connection, hold)
            print(f"Hold {hold} has ended; {count(messages)} of its messages wait again.")
        elif shard is not None and sent is not None:
            print_table(OpenTopic, admin.open_batch(connection, shard))
            connection.rollback()  # no transaction stays open while a person decides
            will_be = "deleted, because they are in Kafka" if sent else "sent"
            change.confirm(f"The messages of the open batch of shard {shard} will be {will_be}.")
            change.record(connection, "outbox release", shard=shard, sent=sent)
            messages = admin.release_shard(connection, shard, sent=sent)
            done = "were deleted as sent" if sent else "are sent by the next relay"
            print(f"Shard {shard} continues; {count(messages)} messages of its open batch {done}.")


@app.command()
@takes(change=Change)
def purge(hold: Annotated[int, argument("HOLD", "Number of the hold.")], *, change: Change) -> None:
    """Delete the messages of a hold, unsent and permanently.

    Later messages of its key then continue.

    Example:
      workorders outbox purge 17 --reason "the sender corrects them itself"
    """
    with connect_to_write(change.database) as connection:
        change.confirm(f"The messages of hold {hold} will be deleted, and never sent.")
        change.record(connection, "outbox purge", hold=hold)
        messages = admin.purge_hold(connection, hold)
    print(f"{count(messages)} messages of hold {hold} were deleted unsent.")


@app.command("reset-identity")
@takes(change=Change)
def reset_identity(*, change: Change) -> None:
    """Let the next relay record another identity.

    That is: number of shards, cluster, checkpoint topic, and transactional-id prefix. First pause all Dags of the
    relay and change its file. Refused while a relay is at work or has left an open batch.

    Example:
      workorders outbox reset-identity --reason "moved to another cluster"
    """
    with connect_to_write(change.database) as connection:
        change.confirm("The next relay will record another identity, and will not fence a relay of the old one.")
        change.record(connection, "outbox reset-identity")
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
