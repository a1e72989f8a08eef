"""Bulk operations: the form that reruns, cancels, or exports work orders, the progress of each, and how to stop one."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from threading import BoundedSemaphore, Thread
from typing import Annotated, Final
from urllib.parse import parse_qsl

import psycopg
from fastapi import Form, HTTPException, Path, Query, Response

from workorders import dag_ids
from workorders.core.bulk import jobs as store
from workorders.core.bulk import runner
from workorders.core.bulk.jobs import Job, JobUnavailableError
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.postgres.connection import Connection
from workorders.core.workflows import list_names
from workorders.pages import downloads, search
from workorders.pages.access import Right, hide, may_read_texts
from workorders.pages.forms import Reason
from workorders.pages.search import Kind, Search
from workorders.pages.site import Action, CurrentVisit, Site

_LOG = logging.getLogger(__name__)

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


def form_page(
    visit: CurrentVisit, kind: Kind | None = None, id_: Annotated[list[str] | None, Query(alias="selected")] = None
) -> Response:
    """Show how many work orders a rerun or a cancel would change, or an export has, and ask for the reason."""
    if kind is None:
        return visit.redirect("work-orders")
    wanted = _limited(search.read(visit.request.query_params, visit.now).fixed(visit.now), id_ or [], kind)
    with visit.site.reading(seconds=_COUNT_SECONDS) as connection:
        search.require_right(connection, visit.viewer, _RIGHTS[kind], wanted.filter)
        counted = search.count(connection, wanted.filter, kind)
    return visit.show("bulk_form.html", kind=kind, search=wanted, counted=counted)


def begin(
    *,
    action: Action,
    kind: Annotated[Kind, Form()],
    reason: Reason,
    query: Annotated[str, Form()] = "",
    seen: Annotated[int | None, Form(ge=0)] = None,
    from_start: Annotated[bool, Form()] = False,
    id_: Annotated[list[str] | None, Form(alias="selected")] = None,
) -> Response:
    """Create the operation, if no more work orders match than were seen; its page shows what becomes of it.

    A few that were selected are done before the answer. An export is no operation: the answer is its file.
    """
    site, viewer = action.site, action.viewer
    wanted = _limited(search.read(dict(parse_qsl(query)), action.now), id_ or [], kind)
    selected = [str(id_) for id_ in wanted.filter.selected or ()]
    if kind == "export":
        with site.reading() as connection:
            dags = search.require_right(connection, viewer, _RIGHTS[kind], wanted.filter)
        action.record(kind, dags, work_orders=selected, reason=reason)
        return downloads.begin(site, wanted.filter)
    options = {"from_start": True} if kind == "rerun" and from_start else {}
    with site.writing() as connection:
        dags = search.require_right(connection, viewer, _RIGHTS[kind], wanted.filter)
        job = store.create_job(connection, kind, wanted.filter, action.by(reason), options=options)
        if seen is not None and job.total > seen:
            raise HTTPException(
                409,
                f"{job.total:,} work orders match now, and the page showed {seen:,}, so nothing was changed. Go back, "
                f"look at them, and decide again.",
            )
        action.record(kind, dags, job=job.id, work_orders=selected or job.total, reason=reason, **options)
        connection.commit()
    (_run if selected else _start)(site, job.id)
    return action.redirect("bulk", job.id)


def list_page(visit: CurrentVisit, before: Annotated[int | None, Query(ge=1, le=search.MAX_NUMBER)] = None) -> Response:
    """Show the newest operations that the user may see."""
    with visit.site.reading() as connection:
        found = store.list_jobs(connection, before=before, limit=_PAGE)
        workflows = list_names(connection)
        dags = {job.id: _dags_of(connection, job, workflows) for job in found}
        known = {*chain.from_iterable(dags.values())}
        readable = {dag_id for dag_id in known if visit.viewer.may(Right.READ, dag_id)}
        shown = [job for job in found if readable.issuperset(dags[job.id])]
    next_before = found[-1].id if len(found) == _PAGE else None
    return visit.show("bulk_operations.html", jobs=shown, next_before=next_before)


def page(visit: CurrentVisit, number: Number) -> Response:
    """Show one operation, and follow its progress."""
    viewer = visit.viewer
    with visit.site.reading() as connection:
        job = store.get_job(connection, number)
        dags = _dags_of(connection, job, list_names(connection))
    viewer.require(Right.READ, *dags)
    is_moving = job.state in _MOVING
    is_unfinished = is_moving or job.state == "failed"
    reads_input = viewer.may(Right.READ_INPUT, *dags)
    return visit.show(
        "bulk_operation.html",
        job=hide(job if reads_input else _without_words(job), "error", unless=may_read_texts(viewer, dags)),
        dags=dags,
        seconds=_QUICK_SECONDS if is_moving else 15,
        is_unfinished=is_unfinished,
        may_stop=is_unfinished and viewer.may(Right.ACT, *dags),
    )


def cancel(action: Action, number: Number) -> Response:
    """Stop an operation; its finished steps remain."""
    with action.site.writing() as connection:
        dags = _dags_of(connection, store.get_job(connection, number), list_names(connection))
        action.viewer.require(Right.ACT, *dags)
        action.record("stop_job", dags, job=number)
        store.cancel_job(connection, number)
    return action.redirect("bulk", number)


def _dags_of(connection: Connection, job: Job, workflows: Sequence[str]) -> list[str]:
    """Return the Dags whose rights decide about an operation: that of its workflow, or those of all.

    They are those of all as well if its only work order was deleted, so that none is everybody's.
    """
    found = search.workflows_of(connection, job.filter, workflows) or workflows
    return [dag_ids.of_workflow(name) for name in found]


def _without_words(job: Job) -> Job:
    """Return an operation without what it searched for in inputs."""
    wanted = job.filter
    text, ordering_key = (None if words is None else "…" for words in (wanted.text, wanted.ordering_key))
    return replace(job, filter=replace(wanted, text=text, ordering_key=ordering_key))


def _limited(wanted: Search, ids: Sequence[str], kind: Kind) -> Search:
    """Return a search, or one for the work orders that were ticked; refuse to change all that there are."""
    if len(ids) > _PAGE:
        raise HTTPException(422, f"Nothing was changed: at most {_PAGE} work orders are selected one by one.")
    wanted = wanted.of_selected(sorted({search.read_id(text) for text in ids}))
    if kind != "export" and wanted.is_empty and wanted.filter.since is None:
        raise HTTPException(
            422, "All work orders were selected; nothing was changed. Limit the search by a time or another field."
        )
    return wanted


def _start(site: Site, job_id: int) -> None:
    """Run a job in a thread of this server, if one is free: a person watches its progress.

    Otherwise, or if the server ends meanwhile, the maintenance Dag runs it, as every job whose process died.
    """

    def run_if_free() -> None:
        if _FREE.acquire(blocking=False):
            try:
                _run(site, job_id)
            finally:
                _FREE.release()

    # The end of the server does not wait for it: every step is a transaction, and another process continues.
    Thread(target=run_if_free, name=f"workorders job {job_id}", daemon=True).start()


def _run(site: Site, job_id: int) -> None:
    try:
        with site.writing() as connection:
            runner.run_job(connection, job_id)
    except JobUnavailableError as other:
        _LOG.info("%s", other)
    except (WorkOrdersError, psycopg.Error) as error:
        # The job's row has it too, if the database could be reached.
        _LOG.error("Bulk operation %s: %s", job_id, one_line(error))
