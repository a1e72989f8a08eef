"""The page to begin with: what needs a person, then every trigger, workflow, and shard of the outbox."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from workorders import dag_ids
from workorders.core.bulk import jobs
from workorders.core.bulk.jobs import Job
from workorders.core.history import search_index, state_counts, work_orders, workload
from workorders.core.history.work_orders import RegisteredTrigger
from workorders.core.history.workload import Workload
from workorders.core.ids import time_of
from workorders.core.metrics import Sample
from workorders.core.postgres.connection import Connection
from workorders.kafka.ledger import batches
from workorders.kafka.status import partition_status
from workorders.kafka.status.partition_status import TRIGGER_TYPE, TriggerStatus
from workorders.monitoring import snapshot
from workorders.monitoring.health import TRIGGER_FIGURES, oldest_ages
from workorders.monitoring.idle_workflows import find_idle
from workorders.monitoring.problems import Facts, find_problems
from workorders.outbox import admin
from workorders.pages import needs, outbox, workflow_state
from workorders.pages.access import CurrentViewer, Right, Viewer
from workorders.pages.kafka_state import severity, word_of
from workorders.pages.kafka_trigger import readable as readable_status
from workorders.pages.rendering import render
from workorders.pages.site import CurrentSite, Site
from workorders.pages.texts import hide, may_read_texts
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)

_JOBS: Final = 20
"""Newest bulk jobs among which failed ones are looked for."""


@dataclass(frozen=True, slots=True)
class KafkaLine:
    """A Kafka trigger in one line."""

    status: TriggerStatus
    last_planned: datetime | None
    """When its newest batch was planned; None before the first one."""
    is_paused: bool
    asked_kafka: bool
    has_listener: bool = True
    """Whether Airflow knows the Dag of its listener; that of a retired trigger is gone."""
    oldest_age: float | None = None
    """Seconds for which its oldest message without a work order has waited at most, to a minute; 0 if none waits, and
    None if the listener does not look."""

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

    @property
    def next_try(self) -> datetime | None:
        """Return when the first stalled partition is tried again; None if none is, or no try is planned."""
        tries = (row.next_attempt_at for row in self.status.partitions if row.status == "stalled")
        return min((next_try for next_try in tries if next_try is not None), default=None)


@dataclass(frozen=True, slots=True)
class WorkflowLine:
    """A workflow in one line."""

    work: Workload
    word: str
    """What it does."""
    ended_per_minute: float
    """Mean number of runs that ended."""


@dataclass(frozen=True, slots=True)
class OtherLine:
    """A trigger that is not of Kafka in one line."""

    trigger: RegisteredTrigger
    newest_at: datetime | None
    """When its newest work order was created; None if the search index contains none."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything on the page."""

    kafka: Sequence[KafkaLine]
    others: Sequence[OtherLine]
    listed_until: datetime | None
    """Up to when the search index contains work orders; None if it is empty."""
    workflows: Sequence[WorkflowLine]
    idle: Sequence[Workload]
    """Work of those of the workflows with work orders that are due, and without a run."""
    counts: state_counts.Counts | None
    """Work orders by state; None for a user who may not read those of every workflow."""
    shards: Sequence[admin.ShardStatus]
    holds: Sequence[admin.Hold]
    jobs: Sequence[Job]
    samples: Sequence[Sample]
    """The figures of the triggers."""
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
        needs=needs.of(find_problems(facts_of(found))),
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
        shows_outbox = viewer.may(Right.READ, dag_ids.OUTBOX)
        workloads = workload.list_workloads(connection, now)
        readable = [found for found in workloads if viewer.may(Right.READ, dag_ids.of_workflow(found.workflow))]
        reads_all = len(readable) == len(workloads)
        idle = find_idle(connection, readable, now)
        names = {trigger.name for trigger in kafka}
        paused = site.paused_dags(
            [*map(dag_ids.listener, names), *(dag_ids.of_workflow(found.workflow) for found in readable)]
        )
        samples = [
            sample
            for sample in snapshot.take(connection, TRIGGER_FIGURES)
            if dict(sample.labels).get("trigger") in names
        ]
        statuses = [
            readable_status(status, viewer)
            for status in partition_status.collect(connection, site.kafka if ask_kafka else None, with_groups=False)
            if status.name in names
        ]
        reads_jobs = reads_all and may_read_texts(viewer, [dag_ids.of_workflow(found.workflow) for found in readable])
        return Overview(
            kafka=_kafka_lines(connection, statuses, samples, paused, ask_kafka=ask_kafka),
            samples=samples,
            others=_other_lines(connection, [trigger for trigger in known if trigger.type != TRIGGER_TYPE]),
            listed_until=_listed_until(connection),
            workflows=_workflow_lines(readable, idle, paused, workload.ended_per_minute(connection, now)),
            idle=idle,
            counts=state_counts.latest_counts(connection) if reads_all else None,
            shards=outbox.shards(connection, viewer) if shows_outbox else [],
            holds=outbox.holds(connection, viewer) if shows_outbox else [],
            jobs=[hide(job, "error", unless=reads_jobs) for job in jobs.list_jobs(connection, limit=_JOBS)]
            if reads_all
            else [],
            shows_outbox=shows_outbox,
            asked_kafka=ask_kafka,
        )


def facts_of(found: Overview) -> Facts:
    """Return what tells what is wrong; that Kafka was not asked yet is no problem."""
    return Facts(
        triggers=[line.status if line.asked_kafka else replace(line.status, problem=None) for line in found.kafka],
        samples=found.samples,
        idle=found.idle,
        paused={line.status.name for line in found.kafka if line.is_paused or not line.has_listener},
        shards=found.shards,
        holds=found.holds,
        jobs=found.jobs,
    )


def _may_read(viewer: Viewer, trigger: RegisteredTrigger) -> bool:
    is_kafka = trigger.type == TRIGGER_TYPE
    return viewer.may(Right.READ, dag_ids.ingest(trigger.name) if is_kafka else dag_ids.of_workflow(trigger.workflow))


def _workflow_lines(
    workloads: Sequence[Workload],
    idle: Sequence[Workload],
    paused: Mapping[str, bool],
    ended: Mapping[str, float],
) -> list[WorkflowLine]:
    return [
        WorkflowLine(
            work,
            workflow_state.word_of(
                work, is_stuck=work in idle, is_paused=paused.get(dag_ids.of_workflow(work.workflow), False)
            ),
            ended.get(work.workflow, 0.0),
        )
        for work in workloads
    ]


def _listed_until(connection: Connection) -> datetime | None:
    newest = search_index.indexed_up_to(connection)
    return time_of(newest) if newest.int else None


def _other_lines(connection: Connection, known: Sequence[RegisteredTrigger]) -> list[OtherLine]:
    newest = work_orders.newest_by_trigger(connection, [trigger.name for trigger in known])
    return [OtherLine(trigger, newest.get(trigger.name)) for trigger in known]


def _kafka_lines(
    connection: Connection,
    statuses: Sequence[TriggerStatus],
    samples: Sequence[Sample],
    paused: Mapping[str, bool],
    *,
    ask_kafka: bool,
) -> list[KafkaLine]:
    planned = batches.last_planned(connection)
    ages = oldest_ages(samples)
    lines = [
        KafkaLine(
            status=status,
            last_planned=planned.get(status.name),
            is_paused=paused.get(dag_ids.listener(status.name), False),
            asked_kafka=ask_kafka,
            has_listener=dag_ids.listener(status.name) in paused,
            oldest_age=ages.get(status.name),
        )
        for status in statuses
    ]
    return sorted(lines, key=lambda line: (severity(line.word), -(line.lag or 0), line.status.name))
