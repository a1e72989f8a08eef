"""The page to begin with: what needs a person, then every trigger and workflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from workorders import dag_ids
from workorders.core import triggers
from workorders.core.bulk import jobs
from workorders.core.bulk.jobs import Job
from workorders.core.history import search_index, work_orders, workload
from workorders.core.history.workload import Workload
from workorders.core.ids import time_of
from workorders.core.metrics import Sample, take_samples
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.status import TRIGGER_TYPE, TriggerStatus, collect
from workorders.monitoring.problems import TRIGGER_FIGURES, Facts, find_idle, find_problems, oldest_ages
from workorders.pages import outbox, states
from workorders.pages.access import CurrentViewer, Right, Viewer, hide, may_read_texts
from workorders.pages.kafka_trigger import readable as readable_status
from workorders.pages.rendering import render
from workorders.pages.site import KAFKA_SECONDS, CurrentSite
from workorders.pages.states import severity, word_of_trigger, word_of_workflow
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)

_JOBS: Final = 20
"""Newest bulk operations among which failed ones are looked for."""


@dataclass(frozen=True, slots=True)
class KafkaLine:
    """A Kafka trigger in one line."""

    status: TriggerStatus
    is_paused: bool
    has_listener: bool = True
    """Whether Airflow knows a listener with the usual name: that of a retired trigger is gone, and own Dags may have
    others."""
    oldest_age: float | None = None
    """Seconds for which its oldest message without a work order has waited at most, to a minute; 0 if none waits, and
    None if the listener does not look."""

    @property
    def word(self) -> str:
        """Return the worst state of the partitions, or `paused`."""
        return word_of_trigger(self.status, is_paused=self.is_paused)

    @property
    def lag(self) -> int | None:
        """Return the sum of the known lags; None if none is known."""
        lags = [row.lag for row in self.status.partitions if row.lag is not None]
        return sum(lags) if lags else None

    @property
    def stalled(self) -> int:
        """Return the number of stalled partitions."""
        return sum(row.status == "stalled" for row in self.status.partitions)


@router.get("/")
def overview(request: Request, site: CurrentSite, viewer: CurrentViewer) -> HTMLResponse:
    """Show the overview; Kafka is asked when the page updates itself, so that the first page does not wait for it."""
    now = datetime.now(UTC)
    asked_kafka = "hx-request" in request.headers
    shows_outbox = viewer.may(Right.READ, dag_ids.OUTBOX)
    with site.reading() as connection:
        known = [trigger for trigger in triggers.find_all(connection) if _may_read(viewer, trigger)]
        others = [trigger for trigger in known if trigger.type != TRIGGER_TYPE]
        names = {trigger.name for trigger in known} - {trigger.name for trigger in others}
        every = workload.list_workloads(connection, now)
        readable = [work for work in every if viewer.may(Right.READ, dag_ids.of_workflow(work.workflow))]
        reads_all = len(readable) == len(every)
        paused = site.paused_dags(
            [*map(dag_ids.listener, names), *(dag_ids.of_workflow(work.workflow) for work in readable)]
        )
        samples = [
            sample
            for sample in take_samples(connection, TRIGGER_FIGURES)
            if dict(sample.labels).get("trigger") in names
        ]
        kafka_settings = site.kafka_settings if asked_kafka else None
        statuses = [
            readable_status(status, viewer)
            for status in collect(connection, kafka_settings, with_groups=False, timeout_seconds=KAFKA_SECONDS)
            if status.name in names
        ]
        kafka = _kafka_lines(statuses, samples, paused)
        facts = facts_of(
            kafka,
            samples=samples,
            idle=find_idle(connection, readable, now),
            shards=outbox.shards(connection, viewer) if shows_outbox else [],
            holds=outbox.holds(connection, viewer) if shows_outbox else [],
            jobs=_jobs(connection, viewer, readable) if reads_all else [],
        )
        newest_listed = search_index.indexed_up_to(connection)
        newest = work_orders.newest_by_trigger(connection, [trigger.name for trigger in others])
        ended = workload.ended_per_minute(connection, now)
        counts = work_orders.latest_counts(connection) if reads_all else None
    return render(
        request,
        "overview.html",
        now=now,
        needs=sorted(find_problems(facts), key=states.urgency),
        max_needs=states.MAX_SHOWN,
        page_of=states.page_of,
        button_of=states.button_of,
        counts=counts,
        kafka=kafka,
        asked_kafka=asked_kafka,
        poll_now=not asked_kafka and bool(kafka),
        workloads=readable,
        words={
            work.workflow: word_of_workflow(
                work, is_stuck=work in facts.idle, is_paused=paused.get(dag_ids.of_workflow(work.workflow), False)
            )
            for work in readable
        },
        ended=ended,
        max_counted=workload.MAX_COUNTED,
        others=others,
        newest=newest,
        listed_until=time_of(newest_listed) if newest_listed.int else None,
    )


def facts_of(kafka: Sequence[KafkaLine], **others: Any) -> Facts:
    """Return what tells what is wrong."""
    paused = {line.status.name for line in kafka if line.is_paused or not line.has_listener}
    return Facts(triggers=[line.status for line in kafka], paused=paused, **others)


def _may_read(viewer: Viewer, trigger: Trigger) -> bool:
    is_kafka = trigger.type == TRIGGER_TYPE
    return viewer.may(Right.READ, dag_ids.ingest(trigger.name) if is_kafka else dag_ids.of_workflow(trigger.workflow))


def _jobs(connection: Connection, viewer: Viewer, workloads: Sequence[Workload]) -> list[Job]:
    unless = may_read_texts(viewer, [dag_ids.of_workflow(work.workflow) for work in workloads])
    return [hide(job, "error", unless=unless) for job in jobs.list_jobs(connection, limit=_JOBS)]


def _kafka_lines(
    statuses: Sequence[TriggerStatus], samples: Sequence[Sample], paused: Mapping[str, bool]
) -> list[KafkaLine]:
    ages = oldest_ages(samples)
    lines = [
        KafkaLine(
            status=status,
            is_paused=paused.get(dag_ids.listener(status.name), False),
            has_listener=dag_ids.listener(status.name) in paused,
            oldest_age=ages.get(status.name),
        )
        for status in statuses
    ]
    return sorted(lines, key=lambda line: (severity(line.word), -(line.lag or 0), line.status.name))
