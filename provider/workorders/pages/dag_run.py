"""The tab on Dag runs in Airflow: for an ingest run, its ranges and what became of them."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from workorders import dag_ids
from workorders.kafka.exceptions import ForeignBatchError, UnknownBatchError
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.positions import stream_name
from workorders.pages.access import CurrentViewer, Right
from workorders.pages.rendering import render
from workorders.pages.site import CurrentSite
from workorders.pages.texts import hide, may_read_texts
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/dag-run")
def page(
    request: Request, site: CurrentSite, viewer: CurrentViewer, dag_id: str = "", run_id: str = ""
) -> HTMLResponse:
    """Show the batch of an ingest run; Airflow shows this tab on the runs of every Dag, also of those of others."""
    trigger, number = dag_ids.trigger_of_ingest(dag_id), dag_ids.batch_of(run_id)
    if trigger is None or number is None:
        return render(request, "dag_run.html", batch=None)
    viewer.require(Right.READ, dag_id)
    with site.reading() as connection:
        try:
            batches.require_own(connection, number, trigger)
            batch = batches.load(connection, number)
        except (UnknownBatchError, ForeignBatchError):
            return render(request, "dag_run.html", batch=None)
    known = site.known_runs(dag_id, [run_id])
    return render(
        request,
        "dag_run.html",
        now=datetime.now(UTC),
        batch=batch,
        ranges=[hide(range_, "last_error", unless=may_read_texts(viewer, [dag_id])) for range_ in batch.ranges],
        stream_of=lambda range_: stream_name(range_.range.partition, range_.generation),
        dag_id=dag_id,
        run_id=run_id if run_id in known else None,
        may_replay=viewer.may(Right.REPLAY, dag_id),
        seconds=5 if batch.unfinished else 60,
    )
