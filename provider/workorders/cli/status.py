"""`workorders status`: where every partition stands."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from workorders.cli import times
from workorders.cli.connections import Database, connect, kafka_settings
from workorders.cli.output import AsJson, Column, count, note, print_json, print_table, safe
from workorders.core.exceptions import one_line
from workorders.kafka.status.partition_status import PartitionRow, TriggerStatus, collect

_COLUMNS = (
    Column("partition"),
    Column("ledger", number=True),
    Column("group", number=True),
    Column("group is"),
    Column("last stable", number=True),
    Column("high watermark", number=True),
    Column("lag", number=True),
    Column("group lag", number=True),
    Column("status"),
    Column("since"),
    Column("attempts", number=True),
    Column("next try"),
)


def status(
    trigger: Annotated[
        str | None, typer.Argument(metavar="TRIGGER", show_default=False, help="Name of the only trigger to show.")
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Show where every partition of the Kafka triggers stands.

    \b
    ledger          the next offset to become a work order; this is the truth
    group           the consumer group's committed offset, which follows the ledger after each batch
    group is        ahead or behind, or none, when it is not at the ledger; the ledger is right, and a line says more
    last stable     end of what can be read: no open transaction began before it
    high watermark  end of the log, open transactions included
    lag             offsets from the ledger to the last stable one; some of them may hold no message
    group lag       the same from the group's offset, as other tools show it

    \b
    status
      up to date                       nothing waits
      behind                           messages wait for the next batch
      in batch 17                      a batch is being ingested; see `workorders batches show 17`
      stalled                          the last attempt failed; it is tried again, and its reason stands below the table
      waiting for an open transaction  a producer has not yet committed or aborted; since its first message's time
      not planned yet                  a partition that no batch has taken so far
      not in Kafka, topic made again, unread messages deleted, log cut short
                                       Kafka and the ledger disagree; the next batch says it in full

    A `?` stands where Kafka did not answer; the database's part is shown all the same.

    \b
    Examples:
      workorders status
      workorders status orders
      watch -n 2 workorders status orders
      workorders status --json | jq '.[].partitions[] | select(.status == "stalled")'
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        triggers = collect(connection, kafka_settings, trigger)
    if as_json:
        print_json([_json(found) for found in triggers])
        return
    if not triggers:
        note("No Kafka trigger has planned a batch in this database yet; `workorders triggers` shows the files.")
    for place, found in enumerate(triggers):
        if place:
            print()
        _print(found)


def _print(trigger: TriggerStatus) -> None:
    print(safe(f"{trigger.name}: workflow {trigger.workflow}, group {trigger.group}"))
    if trigger.partitions:
        print_table(_COLUMNS, [_cells(row) for row in trigger.partitions])
    else:
        print("No partition was planned yet.")
    for row in trigger.partitions:
        if row.status == "stalled":
            print(safe(f"{row.topic} {row.partition} is stalled: {one_line(row.last_error or 'no reason given')}"))
    for sentence in trigger.group_notes:
        print(safe(sentence))
    if trigger.problem:
        note(trigger.problem)


def _cells(row: PartitionRow) -> Sequence[str]:
    return (
        f"{row.topic} {row.partition}",
        count(row.next_offset, unknown="-"),
        # Kafka answered when it gave an end of the log: the group has no offset then.
        count(row.group_offset, unknown="?" if row.last_stable is None else "-"),
        row.group_relation or "",
        count(row.last_stable),
        count(row.high_watermark),
        count(row.lag),
        count(row.group_lag),
        row.status,
        times.show(row.since),
        str(row.attempts) if row.attempts else "",
        times.show(row.next_attempt_at),
    )


def _json(trigger: TriggerStatus) -> dict[str, Any]:
    return {
        "trigger": trigger.name,
        "workflow": trigger.workflow,
        "group": trigger.group,
        "kafka_connection": trigger.kafka_connection,
        "problem": trigger.problem,
        "group_notes": trigger.group_notes,
        "partitions": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "topic_id": row.topic_id,
                "ledger": row.next_offset,
                "group": row.group_offset,
                "group_is": row.group_relation,
                "last_stable": row.last_stable,
                "high_watermark": row.high_watermark,
                "lag": row.lag,
                "group_lag": row.group_lag,
                "status": row.status,
                "batch": row.batch_id,
                "since": row.since,
                "attempts": row.attempts,
                "next_try": row.next_attempt_at,
                "last_error": row.last_error,
            }
            for row in trigger.partitions
        ],
    }
