"""The page to begin with: what needs a person, then every trigger and workflow."""

from typing import Final

from fastapi import Response

from workorders import dag_ids
from workorders.core import triggers
from workorders.core.bulk import jobs
from workorders.core.history import search_index, work_orders, workload
from workorders.core.ids import time_of
from workorders.core.metrics import take_samples
from workorders.core.triggers import Trigger
from workorders.kafka.status import TRIGGER_TYPE, collect
from workorders.monitoring.problems import TRIGGER_FIGURES, Facts, find_idle, find_problems, oldest_ages
from workorders.pages import outbox, states
from workorders.pages.access import Right, Viewer, hide, may_read_texts
from workorders.pages.kafka_trigger import readable as readable_status
from workorders.pages.site import KAFKA_SECONDS, CurrentVisit
from workorders.pages.states import lag_of, severity, word_of_trigger, word_of_workflow

_JOBS: Final = 20
"""Newest bulk operations among which failed ones are looked for."""


def page(visit: CurrentVisit) -> Response:
    """Show the overview."""
    viewer, site, now = visit.viewer, visit.site, visit.now
    shows_outbox = viewer.may(Right.READ, dag_ids.OUTBOX)
    with site.reading() as connection:
        known = [trigger for trigger in triggers.find_all(connection) if _may_read(viewer, trigger)]
        others = [trigger for trigger in known if trigger.type != TRIGGER_TYPE]
        names = {trigger.name for trigger in known} - {trigger.name for trigger in others}
        every = workload.list_workloads(connection, now)
        readable = [work for work in every if viewer.may(Right.READ, dag_ids.of_workflow(work.workflow))]
        reads_all = len(readable) == len(every)
        dags = [dag_ids.of_workflow(work.workflow) for work in readable]
        reads_texts = reads_all and may_read_texts(viewer, dags)
        found_jobs = jobs.list_jobs(connection, limit=_JOBS) if reads_all else []
        paused = site.paused_dags([*map(dag_ids.listener, names), *dags])
        samples = [
            sample
            for sample in take_samples(connection, TRIGGER_FIGURES)
            if dict(sample.labels).get("trigger") in names
        ]
        kafka = [
            readable_status(status, viewer)
            for status in collect(connection, visit.kafka, with_groups=False, timeout_seconds=KAFKA_SECONDS)
            if status.name in names
        ]
        facts = Facts(
            triggers=kafka,
            paused=states.stopped_listeners(names, paused),
            samples=samples,
            idle=find_idle(connection, readable, now),
            shards=outbox.shards(connection, viewer) if shows_outbox else [],
            holds=outbox.holds(connection, viewer) if shows_outbox else [],
            jobs=[hide(job, "error", unless=reads_texts) for job in found_jobs],
        )
        newest_listed = search_index.indexed_up_to(connection)
        newest = work_orders.newest_by_trigger(connection, [trigger.name for trigger in others])
        ended = workload.ended_per_minute(connection, now)
        counts = work_orders.latest_counts(connection) if reads_all else None
    trigger_words = {
        status.name: word_of_trigger(status, is_paused=paused.get(dag_ids.listener(status.name), False))
        for status in kafka
    }
    return visit.show(
        "overview.html",
        needs=sorted(find_problems(facts), key=states.urgency),
        states=states,
        counts=counts,
        kafka=sorted(
            kafka, key=lambda status: (severity(trigger_words[status.name]), -(lag_of(status) or 0), status.name)
        ),
        trigger_words=trigger_words,
        oldest_ages=oldest_ages(samples),
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


def _may_read(viewer: Viewer, trigger: Trigger) -> bool:
    is_kafka = trigger.type == TRIGGER_TYPE
    return viewer.may(Right.READ, dag_ids.ingest(trigger.name) if is_kafka else dag_ids.of_workflow(trigger.workflow))
