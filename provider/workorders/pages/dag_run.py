"""The tab on Dag runs in Airflow: for an ingest run, its ranges and what became of them."""

import re
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from workorders.kafka.exceptions import ForeignBatchError, UnknownBatchError
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.batches import Batch, possible_run_ids
from workorders.kafka.ledger.positions import stream_name
from workorders.pages import dag_ids
from workorders.pages.access import CurrentViewer, Right
from workorders.pages.kafka_trigger import ingest_run_of
from workorders.pages.rendering import render
from workorders.pages.site import CurrentSite
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)

_INGEST: Final = re.compile(r"(.+)_ingest")
_RUN: Final = re.compile(r"batch_([0-9]{1,18})")


@router.get("/dag-run")
def page(
    request: Request, site: CurrentSite, viewer: CurrentViewer, dag_id: str = "", run_id: str = ""
) -> HTMLResponse:
    """Show the batch of an ingest run; Airflow shows this tab on the runs of every Dag, also of those of others."""
    trigger, number = _INGEST.fullmatch(dag_id), _RUN.fullmatch(run_id)
    if trigger is None or number is None:
        return render(request, "dag_run.html", batch=None)
    viewer.require(Right.READ, dag_ids.ingest(trigger[1]))
    with site.reading() as connection:
        try:
            batch = batches.load_own(connection, int(number[1]), trigger[1])
        except (UnknownBatchError, ForeignBatchError):
            return render(request, "dag_run.html", batch=None)
    known = site.known_runs(dag_id, [run_id, *possible_run_ids(batch)])
    return render(
        request,
        "dag_run.html",
        now=datetime.now(UTC),
        batch=batch,
        number=int(number[1]),
        taker=_other_taker(batch),
        stream_of=lambda part: stream_name(part.range.partition, part.generation),
        dag_id=dag_id,
        run_id=run_id if run_id in known else ingest_run_of(batch, known),
        may_replay=viewer.may(Right.REPLAY, dag_id),
        seconds=5 if batch.unfinished else 60,
    )


def _other_taker(batch: Batch) -> int | None:
    """Return the number of the batch whose task took this one; None if that batch is a part of this one now."""
    is_part = batch.first_id is not None and batch.taken_by is not None and batch.taken_by >= batch.first_id
    return None if is_part else batch.taken_by
