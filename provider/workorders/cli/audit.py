"""`workorders audit`: compares what a live installation has stored with itself and with Kafka."""

from typing import Annotated

import psycopg
import typer

from workorders.audit import stored
from workorders.audit.audit import MAX_SECONDS, SAMPLE, Audit
from workorders.audit.findings import AuditReport
from workorders.cli.connections import connect, connect_to_write, kafka_settings, registry_settings
from workorders.cli.options import AsJson, Database, argument
from workorders.cli.output import count, note, show, show_progress
from workorders.core.exceptions import one_line
from workorders.visible_text import safe


def audit(
    trigger: Annotated[str | None, argument("TRIGGER", "Only the partitions of this trigger.")] = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=0, help="Messages of each partition that are read again.")
    ] = SAMPLE,
    max_seconds: Annotated[
        int, typer.Option("--max-seconds", metavar="N", min=1, help="Seconds after which nothing more is begun.")
    ] = MAX_SECONDS,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Compare what is stored with itself and with Kafka.

    It reads only, and stores its report for the pages. Per partition it compares the ledger with ranges, decisions,
    stored work orders, and the consumer group. A random sample of messages is read again from Kafka, decoded as at
    ingest, and compared with its work orders. Without TRIGGER it also compares runs with their work orders and workers,
    and work orders with their inputs and rejections.

    Partitions are checked in random order, and the last line counts those that are left when the time is over.

    Exits with 1 if something is wrong, or could not be checked.

    Examples:
      workorders audit
      workorders audit orders --sample 10000 --max-seconds 600
      workorders audit --json | jq '.findings[]'
    """
    with connect(database) as connection:
        made = Audit(connection, kafka_settings, registry_settings, sample=sample, max_seconds=max_seconds)
        report = made.run(trigger, show_progress)
    try:
        with connect_to_write(database) as connection:
            stored.write_report(connection, report)
    except psycopg.Error as error:
        note(f"The report was not stored, so the pages do not show it: {one_line(error)}")
    show(report, as_json=as_json, shown=_print)
    if not report.is_good:
        raise typer.Exit(1)


def _print(report: AuditReport) -> None:
    for finding in report.findings:
        print(safe(f"{finding.check}: {finding.place}: {finding.what}\n    {finding.action}"))
    if report.findings_left:
        print(f"{count(report.findings_left)} more findings are not shown.")
    for problem in report.problems:
        note(problem)
    print(
        f"partitions {count(report.partitions)} of {count(report.partitions + report.partitions_left)}, "
        f"ranges {count(report.ranges)}, messages read again {count(report.messages)}, "
        f"undecided {count(report.undecided)}, seconds {report.seconds}"
    )
    if report.is_good:
        print("Nothing is wrong.")
