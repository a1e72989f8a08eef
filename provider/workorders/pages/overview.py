"""The page to begin with: what needs a person, then every trigger, workflow, and shard of the outbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from workorders.core.bulk import jobs
from workorders.core.bulk.jobs import Job
from workorders.core.history import state_counts, work_orders, workload
from workorders.core.history.work_orders import RegisteredTrigger
from workorders.core.history.workload import Workload
from workorders.core.postgres.connection import Connection
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.batches import BatchSummary
from workorders.kafka.status import lag_history, partition_status, throughput
from workorders.kafka.status.lag_history import LagHistory
from workorders.kafka.status.partition_status import TRIGGER_TYPE, TriggerStatus
from workorders.kafka.status.throughput import Throughput
from workorders.outbox import admin
from workorders.pages import dag_ids, needs
from workorders.pages.access import CurrentViewer, Right, Viewer
from workorders.pages.kafka_state import severity, word_of
from workorders.pages.rendering import render
from workorders.pages.site import CurrentSite, Site, do_not_ask_kafka
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)

_JOBS: Final = 20
"""Newest bulk jobs among which failed ones are looked for."""


@dataclass(frozen=True, slots=True)
class KafkaLine:
    """A Kafka trigger in one line."""

    status: TriggerStatus
    throughput: Throughput | None
    history: LagHistory | None
    """None if the listener did not look within the last hours."""
    last_batch: BatchSummary | None
    is_paused: bool
    asked_kafka: bool

    @property
    def word(self) -> str:
        """Return the worst state of the partitions, or `paused`."""
        return word_of(self.status, is_paused=self.is_paused)

    @property
    def lag(self) -> int | None:
        """Return the sum of the known lags; None if none is known."""
        lags = [row.lag for row in self.status.partitions if row.lag is not None]
        return sum(lags) if lags else None

    @property
    def stalled(self) -> int:
        """Return the number of stalled partitions."""
        return sum(row.status == "stalled" for row in self.status.partitions)


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the page."""

    kafka: Sequence[KafkaLine]
    others: Sequence[RegisteredTrigger]
    workloads: Sequence[Workload]
    counts: state_counts.Counts | None
    """Work orders by state; None for a user who may not read those of every workflow."""
    shards: Sequence[admin.ShardStatus]
    holds: Sequence[admin.Hold]
    jobs: Sequence[Job]
    shows_outbox: bool
    asked_kafka: bool


@router.get("/")
def overview(request: Request, site: CurrentSite, viewer: CurrentViewer) -> HTMLResponse:
    """Show the overview; Kafka is asked when the page updates itself, so that the first page does not wait for it."""
    now = datetime.now(UTC)
    found = collect(site, viewer, now, ask_kafka="hx-request" in request.headers)
    return render(
        request,
        "overview.html",
        now=now,
        viewer=viewer,
        found=found,
        poll_now=not found.asked_kafka and bool(found.kafka),
        needs=needs.of(found.kafka, found.shards, found.holds, found.jobs),
        max_counted=workload.MAX_COUNTED,
    )


def collect(site: Site, viewer: Viewer, now: datetime, *, ask_kafka: bool) -> Overview:
    """Return what the user may read of everything.

    Raises:
        psycopg.Error: the database failed.
    """
    with site.reading() as connection:
        known = [trigger for trigger in work_orders.registered_triggers(connection) if _may_read(viewer, trigger)]
        kafka = [trigger for trigger in known if trigger.type == TRIGGER_TYPE]
        shows_outbox = viewer.may(Right.READ, dag_ids.relay())
        workloads = workload.list_workloads(connection, now)
        readable = [found for found in workloads if viewer.may(Right.READ, dag_ids.of_workflow(found.workflow))]
        reads_all = len(readable) == len(workloads)
        return Overview(
            kafka=_kafka_lines(connection, site, kafka, now, ask_kafka=ask_kafka),
            others=[trigger for trigger in known if trigger.type != TRIGGER_TYPE],
            workloads=readable,
            counts=state_counts.latest_counts(connection) if reads_all else None,
            shards=admin.shards(connection) if shows_outbox else [],
            holds=admin.holds(connection) if shows_outbox else [],
            jobs=jobs.list_jobs(connection, limit=_JOBS) if reads_all else [],
            shows_outbox=shows_outbox,
            asked_kafka=ask_kafka,
        )


def _may_read(viewer: Viewer, trigger: RegisteredTrigger) -> bool:
    is_kafka = trigger.type == TRIGGER_TYPE
    return viewer.may(Right.READ, dag_ids.ingest(trigger.name) if is_kafka else dag_ids.of_workflow(trigger.workflow))


def _kafka_lines(
    connection: Connection, site: Site, known: Sequence[RegisteredTrigger], now: datetime, *, ask_kafka: bool
) -> list[KafkaLine]:
    rates: Mapping[str, Throughput] = throughput.list_throughput(connection, now)
    lags: Mapping[str, LagHistory] = lag_history.list_lags(connection, now)
    newest = {trigger.name: batches.summaries(connection, trigger.name, limit=1) for trigger in known}
    paused = site.paused_dags([dag_ids.listener(trigger.name) for trigger in known])
    settings_of = site.kafka_settings if ask_kafka else do_not_ask_kafka
    names = {trigger.name for trigger in known}
    lines = [
        KafkaLine(
            status=status,
            throughput=rates.get(status.name),
            history=lags.get(status.name),
            last_batch=next(iter(newest[status.name]), None),
            is_paused=paused.get(dag_ids.listener(status.name), False),
            asked_kafka=ask_kafka,
        )
        for status in partition_status.collect(connection, settings_of)
        if status.name in names
    ]
    return sorted(lines, key=lambda line: (severity(line.word), -(line.lag or 0), line.status.name))
