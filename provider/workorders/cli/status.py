"""`workorders status`: status of every partition."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from workorders.cli.connections import connect, kafka_settings
from workorders.cli.options import AsJson, Database, argument
from workorders.cli.output import count, note, print_table, show
from workorders.core.bulk import jobs
from workorders.core.exceptions import one_line
from workorders.core.history.workload import list_workloads
from workorders.core.metrics import take_samples
from workorders.core.postgres.connection import Connection
from workorders.kafka.partitions import PartitionState
from workorders.kafka.status import PartitionRow, TriggerStatus, collect
from workorders.monitoring.problems import TRIGGER_FIGURES, Facts, find_idle, find_problems
from workorders.outbox import admin
from workorders.visible_text import safe

_COLUMNS: Final[Mapping[str, Callable[[PartitionRow], object]]] = {
    "partition": lambda row: f"{row.topic} {row.partition}",
    "ledger": lambda row: count(row.next_offset, unknown="-"),
    # With an end of the log Kafka has answered, so the group has no offset.
    "committed": lambda row: count(row.committed_offset, unknown="?" if row.last_stable is None else "-"),
    "last stable": lambda row: count(row.last_stable),
    "high watermark": lambda row: count(row.high_watermark),
    "lag": lambda row: count(row.lag),
    "committed lag": lambda row: count(row.committed_lag),
    "status": lambda row: row.status,
    "since": lambda row: row.since,
    "attempts": lambda row: row.attempts or None,
    "next try": lambda row: row.next_attempt_at,
}
_JOBS: Final = 20
"""Newest bulk jobs among which failed ones are looked for."""


def status(
    trigger: Annotated[str | None, argument("TRIGGER", "Only this trigger.")] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if something is wrong, and say what.")] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Show the status of every partition of the Kafka triggers.

    With --check, exits with 1 if a partition or a listener needs attention, or if Kafka does not answer. Without
    TRIGGER, also if a workflow, the outbox, or a bulk operation needs attention.

    \b
    ledger          the first offset without a work order
    committed       the consumer group's committed offset, which follows the ledger after each batch
    last stable     end of the readable log; no open transaction began before it
    high watermark  end of the log, open transactions included
    lag             offsets from the ledger to the last stable one; some may have no message
    committed lag   the same from the committed offset, as in other tools

    \b
    status
      up to date                       nothing waits
      behind                           messages wait for the next batch
      in batch 17                      a batch is being ingested; see `workorders batches show 17`
      stalled                          the last attempt failed and is retried; its error is below the table
      waiting for an open transaction  a producer has not committed or aborted yet
      not planned yet                  no batch has contained the partition yet
      not in Kafka, topic re-created, unread messages deleted, log truncated
                                       Kafka and the ledger do not match; the next batch reports the full error
      topic deleted                    nothing is left to do; `workorders resolve remove-topic` removes the row

    A `?` means that Kafka did not answer; the database's part is shown anyway.

    Examples:
      workorders status
      watch -n 2 workorders status orders
      workorders status --check
      workorders status --json | jq '.[].partitions[] | select(.state == "stalled")'
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        triggers = collect(connection, kafka_settings, trigger)
        facts = _facts(connection, triggers, trigger) if check else Facts()
    show(triggers, as_json=as_json, shown=_print)
    wrong = find_problems(facts)
    if wrong:
        for problem in wrong:
            note(str(problem))
        raise typer.Exit(1)


def _facts(connection: Connection, triggers: Sequence[TriggerStatus], only: str | None) -> Facts:
    """Return what a check of all triggers or of one needs to know."""
    samples = take_samples(connection, TRIGGER_FIGURES)
    if only is not None:
        own = [sample for sample in samples if dict(sample.labels).get("trigger") == only]
        return Facts(triggers=triggers, samples=own)
    now = datetime.now(UTC)
    return Facts(
        triggers=triggers,
        samples=samples,
        idle=find_idle(connection, list_workloads(connection, now), now),
        shards=admin.shards(connection),
        holds=admin.holds(connection),
        jobs=jobs.list_jobs(connection, limit=_JOBS),
    )


def _print(triggers: Sequence[TriggerStatus]) -> None:
    if not triggers:
        note("No Kafka trigger has planned a batch in this database yet; see `workorders triggers list`.")
    for place, trigger in enumerate(triggers):
        if place:
            print()
        print(safe(f"{trigger.name}: workflow {trigger.workflow}, consumer group {trigger.consumer_group}"))
        if trigger.partitions:
            print_table(PartitionRow, trigger.partitions, _COLUMNS)
        else:
            print("No partition was planned yet.")
        for row in trigger.partitions:
            if row.state is PartitionState.STALLED:
                error = one_line(row.last_error or "no error was recorded")
                print(safe(f"{row.topic} {row.partition} is stalled: {error}"))
        if trigger.problem:
            note(trigger.problem)
