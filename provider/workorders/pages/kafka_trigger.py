"""A Kafka trigger: its partitions, its batches, and past decisions; and a batch, as a tab on its Dag run in Airflow."""

from dataclasses import replace
from typing import Final

from fastapi import Response

from workorders import dag_ids
from workorders.core.admission import gaps
from workorders.core.metrics import take_samples
from workorders.kafka.exceptions import ForeignBatchError, UnknownBatchError
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.recovery.resolution import list_decisions
from workorders.kafka.status import TriggerStatus, collect
from workorders.monitoring.problems import OLDEST_AGE, oldest_ages
from workorders.pages import states
from workorders.pages.access import Right, Viewer, hide, may_read_texts
from workorders.pages.site import KAFKA_SECONDS, CurrentVisit

_BATCHES: Final = 50
_DECISIONS: Final = 20
_GAPS: Final = 10


def page(visit: CurrentVisit, name: str, decided: int | None = None, group: str = "") -> Response:
    """Show the trigger, and what was just decided about it."""
    viewer, site = visit.viewer, visit.site
    # Asked first, so that no one finds out which triggers exist.
    viewer.require(Right.READ, dag_ids.ingest(name))
    with site.reading() as connection:
        found = batches.summaries(connection, name, limit=_BATCHES)
        decisions = list_decisions(connection, name, limit=_DECISIONS)
        waiting = gaps.list_gaps(connection, trigger=name, limit=_GAPS)
        oldest_age = oldest_ages(take_samples(connection, {OLDEST_AGE})).get(name)
        (status,) = collect(connection, visit.kafka, name, timeout_seconds=KAFKA_SECONDS)
    status = readable(status, viewer)
    listener, ingest = dag_ids.listener(name), dag_ids.ingest(name)
    paused = site.paused_dags([listener, ingest])
    return visit.show(
        "kafka_trigger.html",
        status=status,
        rows=sorted(status.partitions, key=states.rank),
        word=states.word_of_trigger(status, is_paused=paused.get(listener, False)),
        lag=states.lag_of(status),
        oldest_age=oldest_age,
        batches=found,
        decisions=decisions,
        decided=next((decision for decision in decisions if decision.id == decided), None),
        is_group_behind=group == "behind",
        gaps=waiting,
        reads_input=viewer.may(Right.READ_INPUT, dag_ids.of_workflow(status.workflow)),
        undecided=[row for row in status.partitions if row.needs_attention],
        listener=listener,
        ingest=ingest,
        paused=paused,
        may_act=viewer.may(Right.ACT, ingest),
    )


def tab(visit: CurrentVisit, dag_id: str = "", run_id: str = "") -> Response:
    """Show the batch of an ingest run; Airflow shows this tab on the runs of every Dag, also of those of others."""
    trigger, number = dag_ids.trigger_of_ingest(dag_id), dag_ids.batch_of(run_id)
    if trigger is None or number is None:
        return visit.show("dag_run.html", batch=None)
    visit.viewer.require(Right.READ, dag_id)
    with visit.site.reading() as connection:
        try:
            batches.require_own(connection, number, trigger)
            batch = batches.load(connection, number)
        except (UnknownBatchError, ForeignBatchError):
            return visit.show("dag_run.html", batch=None)
    reads_texts = may_read_texts(visit.viewer, [dag_id])
    return visit.show(
        "dag_run.html",
        batch=batch,
        ranges=[hide(range_, "last_error", unless=reads_texts) for range_ in batch.ranges],
        stream_of=lambda range_: stream_name(range_.range.partition, range_.generation),
        dag_id=dag_id,
        run_id=run_id,
        may_replay=visit.viewer.may(Right.REPLAY, dag_id),
        seconds=5 if batch.unfinished else 60,
    )


def readable(status: TriggerStatus, viewer: Viewer) -> TriggerStatus:
    """Return a trigger without the errors of its partitions, if the user may not read them."""
    unless = may_read_texts(viewer, [dag_ids.ingest(status.name)])
    return replace(status, partitions=tuple(hide(row, "last_error", unless=unless) for row in status.partitions))
