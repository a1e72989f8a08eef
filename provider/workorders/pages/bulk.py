"""Bulk operations: the form that reruns, cancels, or exports work orders, the progress of each, and how to stop one."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from threading import BoundedSemaphore, Thread
from typing import Annotated, Final
from urllib.parse import parse_qsl
from uuid import UUID

import psycopg
from fastapi import APIRouter, Form, HTTPException, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from workorders import dag_ids
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs as store
from workorders.core.bulk import runner
from workorders.core.bulk.jobs import Job, JobUnavailableError
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection
from workorders.core.workflows import list_names
from workorders.pages import downloads, forms, search, selection
from workorders.pages.access import CurrentViewer, Right, hide, may_read_texts
from workorders.pages.forms import CurrentActor, Reason
from workorders.pages.rendering import Place, render
from workorders.pages.search import Search
from workorders.pages.selection import Kind
from workorders.pages.site import CurrentSite, Site
from workorders.pages.threads import PageRoute

_LOG = logging.getLogger(__name__)

router = APIRouter(route_class=PageRoute)

_PAGE: Final = 50
"""Operations of a page, and work orders that are selected one by one."""
Number = Annotated[int, Path(ge=1, le=search.MAX_NUMBER)]
"""Of an operation."""
_MOVING: Final = ("waiting", "running")
_QUICK_SECONDS: Final = 2
"""Between two looks at an operation that a person waits for."""
_COUNT_SECONDS: Final = 15
"""To count millions of work orders takes some seconds."""
_FREE: Final = BoundedSemaphore(2)
"""Threads; each has an operation and a connection."""
_RIGHTS: Final[Mapping[Kind, Right]] = {"rerun": Right.ACT, "cancel": Right.ACT, "export": Right.READ_INPUT}


@router.get("/bulk/new")
def form_page(
    *,
    request: Request,
    site: CurrentSite,
    viewer: CurrentViewer,
    kind: Kind | None = None,
    id_: Annotated[list[str] | None, Query(alias="selected")] = None,
) -> Response:
    """Show how many work orders a rerun or a cancel would change, or an export has, and ask for the reason."""
    if kind is None:
        return RedirectResponse(Place.of(request).page("work-orders"), 303)
    now = datetime.now(UTC)
    wanted = search.read(request.query_params, now).fixed(now).of_selected(_ids(id_ or []))
    _require_filter(wanted, kind)
    with site.reading(seconds=_COUNT_SECONDS) as connection:
        selection.require_right(connection, viewer, _RIGHTS[kind], wanted.filter)
        counted = selection.count(connection, wanted.filter, kind)
    return render(
        request,
        "bulk_form.html",
        now=now,
        kind=kind,
        search=wanted,
        counted=counted,
        csrf=forms.new_token(site.form_key, viewer.id),
        who=viewer.name,
    )


@router.post("/bulk/new")
def begin(
    *,
    request: Request,
    site: CurrentSite,
    actor: CurrentActor,
    kind: Annotated[Kind, Form()],
    reason: Reason,
    query: Annotated[str, Form()] = "",
    seen: Annotated[int | None, Form(ge=0)] = None,
    from_start: Annotated[bool, Form()] = False,
    id_: Annotated[list[str] | None, Form(alias="selected")] = None,
) -> Response:
    """Create the operation, if no more work orders match than were seen; its page shows what becomes of it.

    A few that were selected are done before the answer. An export is no operation: the answer is its file.

    Raises:
        HTTPException: more match than the page showed; nothing was changed.
    """
    wanted = search.read(dict(parse_qsl(query)), datetime.now(UTC)).of_selected(_ids(id_ or []))
    _require_filter(wanted, kind)
    selected = [str(id_) for id_ in wanted.filter.selected or ()]
    if kind == "export":
        with site.reading() as connection:
            dags = selection.require_right(connection, actor, _RIGHTS[kind], wanted.filter)
        site.record(actor, kind, dags, work_orders=selected, reason=reason)
        return downloads.begin(site, wanted.filter)
    options = {"from_start": True} if kind == "rerun" and from_start else {}
    with site.writing() as connection:
        dags = selection.require_right(connection, actor, _RIGHTS[kind], wanted.filter)
        job = store.create_job(
            connection, kind, wanted.filter, Attribution(actor.name, reason, actor.name), options=options
        )
        if seen is not None and job.total > seen:
            raise HTTPException(
                409,
                f"{job.total:,} work orders match now, and the page showed {seen:,}, so nothing was changed. Go back, "
                f"look at them, and decide again.",
            )
        named = selected or job.total
        site.record(actor, kind, dags, job=job.id, work_orders=named, reason=reason, **options)
        connection.commit()
    (_run if selected else _start)(site, job.id)
    return RedirectResponse(Place.of(request).page("bulk", job.id), 303)


@router.get("/bulk")
def list_page(
    request: Request,
    site: CurrentSite,
    viewer: CurrentViewer,
    before: Annotated[int | None, Query(ge=1, le=search.MAX_NUMBER)] = None,
) -> HTMLResponse:
    """Show the newest operations that the user may see."""
    with site.reading() as connection:
        found = store.list_jobs(connection, before=before, limit=_PAGE)
        workflows = list_names(connection)
        dags = {job.id: _dags_of(connection, job, workflows) for job in found}
        readable = {dag_id for dag_id in {*chain.from_iterable(dags.values())} if viewer.may(Right.READ, dag_id)}
        shown = [job for job in found if readable.issuperset(dags[job.id])]
    next_before = found[-1].id if len(found) == _PAGE else None
    return render(request, "bulk_operations.html", jobs=shown, next_before=next_before)


@router.get("/bulk/{number}")
def page(request: Request, site: CurrentSite, viewer: CurrentViewer, number: Number) -> HTMLResponse:
    """Show one operation, and follow its progress."""
    with site.reading() as connection:
        job = store.get_job(connection, number)
        dags = _dags_of(connection, job, list_names(connection))
    viewer.require(Right.READ, *dags)
    is_moving = job.state in _MOVING
    is_unfinished = is_moving or job.state == "failed"
    reads_input = viewer.may(Right.READ_INPUT, *dags)
    return render(
        request,
        "bulk_operation.html",
        job=hide(job if reads_input else _without_words(job), "error", unless=may_read_texts(viewer, dags)),
        dags=dags,
        seconds=_QUICK_SECONDS if is_moving else 15,
        is_unfinished=is_unfinished,
        may_stop=is_unfinished and viewer.may(Right.ACT, *dags),
        csrf=forms.new_token(site.form_key, viewer.id),
    )


@router.post("/bulk/{number}/cancel")
def cancel(request: Request, site: CurrentSite, actor: CurrentActor, number: Number) -> Response:
    """Stop an operation; its finished steps remain."""
    with site.writing() as connection:
        dags = _dags_of(connection, store.get_job(connection, number), list_names(connection))
        actor.require(Right.ACT, *dags)
        site.record(actor, "stop_job", dags, job=number)
        store.cancel_job(connection, number)
    return RedirectResponse(Place.of(request).page("bulk", number), 303)


def _dags_of(connection: Connection, job: Job, workflows: Sequence[str]) -> list[str]:
    """Return the Dags whose rights decide about an operation: that of its workflow, or those of all.

    They are those of all as well if its only work order was deleted, so that none is everybody's.
    """
    found = selection.workflows_of(connection, job.filter, workflows) or workflows
    return [dag_ids.of_workflow(name) for name in found]


def _without_words(job: Job) -> Job:
    """Return an operation without what it searched for in inputs."""
    wanted = job.filter
    text, ordering_key = (None if words is None else "…" for words in (wanted.text, wanted.ordering_key))
    return replace(job, filter=replace(wanted, text=text, ordering_key=ordering_key))


def _require_filter(wanted: Search, kind: Kind) -> None:
    if kind != "export" and wanted.is_empty and wanted.filter.since is None:
        raise HTTPException(
            422,
            "All work orders were selected; nothing was changed. Limit the search by a time or another field.",
        )


def _ids(given: Sequence[str]) -> list[UUID]:
    if len(given) > _PAGE:
        raise HTTPException(422, f"Nothing was changed: at most {_PAGE} work orders are selected one by one.")
    return sorted({search.read_id(text) for text in given})


def _start(site: Site, job_id: int) -> None:
    """Run a job in a thread of this server, if one is free: a person watches its progress.

    Otherwise, or if the server ends meanwhile, the maintenance Dag runs it, as every job whose process died.
    """
    if _FREE.acquire(blocking=False):
        # The end of the server does not wait for it: every step is a transaction, and another process continues.
        run = partial(_run, site, job_id, ended=_FREE.release)
        Thread(target=run, name=f"workorders job {job_id}", daemon=True).start()


def _run(site: Site, job_id: int, *, ended: Callable[[], None] = lambda: None) -> None:
    try:
        with site.writing() as connection:
            runner.run_job(connection, job_id)
    except JobUnavailableError as other:
        _LOG.info("%s", other)
    except (WorkOrdersError, psycopg.Error) as error:
        # The job's row has it too, if the database could be reached.
        _LOG.error("Bulk operation %s: %s", job_id, one_line(error))
    finally:
        ended()
