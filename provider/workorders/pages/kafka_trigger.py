"""A Kafka trigger: its partitions, its batches, and past decisions."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from workorders import dag_ids
from workorders.core.admission import gaps
from workorders.core.exceptions import ConfigurationError, UnknownTriggerError
from workorders.core.postgres.connection import Connection
from workorders.kafka.ledger import batches
from workorders.kafka.recovery.resolution import list_decisions
from workorders.kafka.status import partition_status
from workorders.kafka.status.partition_status import KafkaSource, TriggerStatus
from workorders.monitoring import snapshot
from workorders.monitoring.health import OLDEST_AGE, oldest_ages
from workorders.pages import kafka_state
from workorders.pages.access import CurrentViewer, Right, Viewer
from workorders.pages.problems import NotFoundError
from workorders.pages.rendering import render
from workorders.pages.site import CurrentSite
from workorders.pages.texts import hide, may_read_texts
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)

_BATCHES: Final = 50
_DECISIONS: Final = 20
_GAPS: Final = 10


@router.get("/kafka/{name}")
def page(request: Request, site: CurrentSite, viewer: CurrentViewer, name: str) -> HTMLResponse:
    """Show the trigger; Kafka is asked when the page updates itself, so that the first page does not wait for it."""
    now = datetime.now(UTC)
    asks_kafka = "hx-request" in request.headers
    with site.reading() as connection:
        source = source_of(connection, viewer, name)
        found = batches.summaries(connection, name, limit=_BATCHES)
        decided = list_decisions(connection, name, limit=_DECISIONS)
        waiting = gaps.list_some(connection, trigger=name, limit=_GAPS)
        oldest_age = oldest_ages(snapshot.take(connection, {OLDEST_AGE})).get(name)
        (status,) = partition_status.collect(connection, site.kafka if asks_kafka else None, name)
    status = readable(status, viewer)
    listener, ingest = dag_ids.listener(name), dag_ids.ingest(name)
    paused = site.paused_dags([listener, ingest])
    known = site.known_runs(ingest, [batch.run_id for batch in found])
    return render(
        request,
        "kafka_trigger.html",
        now=now,
        status=status,
        rows=sorted(status.partitions, key=kafka_state.rank),
        word=kafka_state.word_of(status, is_paused=paused.get(listener, False)),
        oldest_age=oldest_age,
        source=source,
        asked_kafka=asks_kafka,
        poll_now=not asks_kafka,
        batches=found,
        known_runs=known,
        decisions=decided,
        gaps=waiting,
        reads_input=viewer.may(Right.READ_INPUT, dag_ids.of_workflow(status.workflow)),
        undecided=[row for row in status.partitions if row.needs_attention],
        listener=listener,
        ingest=ingest,
        paused=paused,
        may_act=viewer.may(Right.ACT, ingest),
    )


def source_of(connection: Connection, viewer: Viewer, name: str) -> KafkaSource:
    """Return the trigger's topics, group, and connection, if the user may read it.

    Raises:
        ForbiddenError: the user may not; asked first, so that no one finds out which triggers exist.
        NotFoundError: no Kafka trigger has that name.
    """
    viewer.require(Right.READ, dag_ids.ingest(name))
    try:
        return partition_status.source_of(connection, name)
    except (UnknownTriggerError, ConfigurationError) as error:
        raise NotFoundError(str(error)) from error


def readable(status: TriggerStatus, viewer: Viewer) -> TriggerStatus:
    """Return a trigger without the errors of its partitions, if the user may not read them."""
    unless = may_read_texts(viewer, [dag_ids.ingest(status.name)])
    return replace(status, partitions=tuple(hide(row, "last_error", unless=unless) for row in status.partitions))
