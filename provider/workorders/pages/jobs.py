"""Bulk jobs: their progress, what they skipped and why, and how to stop one."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Final

from fastapi import APIRouter, Form, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from workorders import dag_ids
from workorders.core.bulk import jobs as store
from workorders.core.bulk.jobs import Job
from workorders.core.postgres.connection import Connection
from workorders.core.workflows import list_names
from workorders.pages import csrf
from workorders.pages.access import CurrentViewer, Right, Viewer
from workorders.pages.audit import Change
from workorders.pages.csrf import CurrentActor
from workorders.pages.rendering import Place, render
from workorders.pages.site import CurrentSite
from workorders.pages.texts import hide, may_read_texts
from workorders.pages.threads import PageRoute
from workorders.pages.work_orders import workflows_of

router = APIRouter(route_class=PageRoute)

_PAGE: Final = 50
_MAX_NUMBER: Final = 2**63 - 1
Number = Annotated[int, Path(ge=1, le=_MAX_NUMBER)]
"""Of a job, as Postgres takes it."""
_MOVING: Final = ("waiting", "running")
_QUICK_SECONDS: Final = 2
"""Between two looks at a job that a person waits for."""


@router.get("/jobs")
def list_page(
    request: Request,
    site: CurrentSite,
    viewer: CurrentViewer,
    before: Annotated[int | None, Query(ge=1, le=_MAX_NUMBER)] = None,
) -> HTMLResponse:
    """Show the newest jobs that the user may see."""
    with site.reading() as connection:
        found = store.list_jobs(connection, before=before, limit=_PAGE)
        workflows = list_names(connection)
        dags = {job.id: _dags_of(connection, job, workflows) for job in found}
        readable = {dag_id for dag_id in {*chain.from_iterable(dags.values())} if viewer.may(Right.READ, dag_id)}
        shown = [job for job in found if readable.issuperset(dags[job.id])]
    return render(request, "jobs.html", jobs=shown, next_before=found[-1].id if len(found) == _PAGE else None)


@router.get("/jobs/{number}")
def job_page(request: Request, site: CurrentSite, viewer: CurrentViewer, number: Number) -> HTMLResponse:
    """Show one job, and follow its progress."""
    now = datetime.now(UTC)
    with site.reading() as connection:
        job = store.get_job(connection, number)
        dags = _dags_of(connection, job, list_names(connection))
        _require_all(viewer, Right.READ, dags)
        token = csrf.new_token(site.form_key, viewer.id)
    is_moving = job.state in _MOVING
    is_unfinished = is_moving or job.state == "failed"
    reads_input = viewer.may_all(Right.READ_INPUT, dags)
    return render(
        request,
        "job.html",
        now=now,
        job=hide(job if reads_input else _without_words(job), "error", unless=may_read_texts(viewer, dags)),
        dags=dags,
        reads_input=reads_input,
        seconds=_QUICK_SECONDS if is_moving else 15,
        is_unfinished=is_unfinished,
        may_stop=is_unfinished and viewer.may_all(Right.ACT, dags),
        csrf=token,
    )


@router.post("/jobs/{number}/cancel")
def cancel(
    request: Request, site: CurrentSite, actor: CurrentActor, number: Number, csrf_: Annotated[str, Form(alias="csrf")]
) -> Response:
    """Stop a job; its finished steps remain."""
    del csrf_  # read by CurrentActor
    with site.writing() as connection:
        dags = _dags_of(connection, store.get_job(connection, number), list_names(connection))
        _require_all(actor, Right.ACT, dags)
        site.record_change(Change(event="workorders_stop_job", user=actor.name, dag_ids=dags, details={"job": number}))
        store.cancel_job(connection, number)
    return RedirectResponse(Place.of(request).page("jobs", number), 303)


def _dags_of(connection: Connection, job: Job, workflows: Sequence[str]) -> list[str]:
    """Return the Dags whose rights decide about a job: that of its workflow, or those of all.

    They are those of all as well if its only work order was deleted, so that no job is everybody's.
    """
    return [dag_ids.of_workflow(name) for name in workflows_of(connection, job.filter, workflows) or workflows]


def _without_words(job: Job) -> Job:
    """Return a job without what it searched for in inputs."""
    wanted = job.filter
    text, ordering_key = (None if words is None else "…" for words in (wanted.text, wanted.ordering_key))
    return replace(job, filter=replace(wanted, text=text, ordering_key=ordering_key))


def _require_all(viewer: Viewer, right: Right, dags: list[str]) -> None:
    for dag_id in dags:
        viewer.require(right, dag_id)
