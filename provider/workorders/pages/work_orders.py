"""Searches work orders, and reruns, cancels, or exports those that were found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import parse_qsl
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from workorders import dag_ids
from workorders.core import triggers
from workorders.core.bulk import capacity, jobs
from workorders.core.history import export, runs, search_index, work_orders
from workorders.core.history.export import Format
from workorders.core.history.filters import Filter
from workorders.core.history.runs import Attempt
from workorders.core.history.work_orders import WorkOrderSummary
from workorders.core.ids import time_of
from workorders.core.postgres.connection import Connection
from workorders.core.states import WorkOrderState
from workorders.core.workflows import list_names
from workorders.pages import csrf, search, selection
from workorders.pages.access import CurrentViewer, Right, Viewer
from workorders.pages.audit import Change, Details, Event
from workorders.pages.csrf import CurrentActor
from workorders.pages.downloads import Downloads
from workorders.pages.job_threads import JobThreads
from workorders.pages.problems import ChangedMeanwhileError, NotFoundError, WrongInputError
from workorders.pages.rendering import Place, render
from workorders.pages.search import Search
from workorders.pages.selection import Kind
from workorders.pages.site import CurrentSite, Site
from workorders.pages.texts import hide, may_read_texts
from workorders.pages.threads import PageRoute
from workorders.pages.typed import read_reason

router = APIRouter(route_class=PageRoute)

PAGE: Final = 50
"""Work orders of a page."""
_RIGHTS: Final[Mapping[Kind, Right]] = {"rerun": Right.ACT, "cancel": Right.ACT, "export": Right.READ_INPUT}
_EVENTS: Final[Mapping[Kind, Event]] = {
    "rerun": "workorders_rerun",
    "cancel": "workorders_cancel",
    "export": "workorders_export",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A page of work orders."""

    rows: Sequence[WorkOrderSummary]
    attempts: Mapping[UUID, Sequence[Attempt]]
    """The last runs of each, the newest last; no entry without a run."""
    indexed_until: datetime | None
    """Up to when words are searched; None if none were searched."""


@router.get("/work-orders")
def list_page(
    request: Request, site: CurrentSite, viewer: CurrentViewer, before: Annotated[str | None, Query()] = None
) -> HTMLResponse:
    """Show a page of the work orders that match, newest first."""
    now = datetime.now(UTC)
    wanted = search.read(request.query_params, now)
    with site.reading() as connection:
        workflows = list_names(connection)
        readable = [name for name in workflows if viewer.may(Right.READ, dag_ids.of_workflow(name))]
        wanted, is_choice_needed = _within(connection, viewer, wanted, workflows)
        found = None if is_choice_needed else _find(connection, viewer, wanted, before)
        known = [found.name for found in work_orders.registered_triggers(connection) if found.workflow in readable]
    return render(
        request,
        "work_orders.html",
        now=now,
        search=wanted,
        found=found,
        workflows=readable,
        triggers=known,
        states=[state.value for state in WorkOrderState],
        limit=PAGE,
        is_first=before is None,
    )


@router.get("/work-orders/confirm")
def confirm_page(
    *,
    request: Request,
    site: CurrentSite,
    viewer: CurrentViewer,
    kind: Kind | None = None,
    id_: Annotated[list[str] | None, Query(alias="selected")] = None,
) -> Response:
    """Show how many work orders a rerun or a cancel would change, or an export has, and ask for the reason.

    Many are not counted before the first answer: the page comes without its form, and asks for the rest by itself.
    """
    if kind is None:
        return RedirectResponse(Place.of(request).page("work-orders"), 303)
    now = datetime.now(UTC)
    is_patient = "hx-request" in request.headers
    wanted = search.read(request.query_params, now).fixed(now).of_selected(_ids(id_ or []))
    _require_filter(wanted, kind)
    with site.reading() as connection:
        _require_of_filter(connection, viewer, _RIGHTS[kind], wanted.filter)
        token = csrf.new_token(site.form_key, viewer.id)
        limits = capacity.capacity_for(connection, wanted.filter) if kind == "rerun" else ()
        counted = selection.count(connection, wanted.filter, kind, patiently=is_patient)
    return render(
        request,
        "confirm.html",
        now=now,
        kind=kind,
        search=wanted,
        counted=counted,
        is_patient=is_patient,
        formats=export.FORMATS,
        limits=limits,
        csrf=token,
        who=viewer.name,
    )


@router.post("/work-orders/confirm")
def apply(
    *,
    request: Request,
    site: CurrentSite,
    actor: CurrentActor,
    kind: Annotated[Kind, Form()],
    reason: Annotated[str, Form()] = "",
    query: Annotated[str, Form()] = "",
    seen: Annotated[int | None, Form(ge=0)] = None,
    format_: Annotated[Format, Form(alias="format")] = "jsonl",
    from_start: Annotated[bool, Form()] = False,
    id_: Annotated[list[str] | None, Form(alias="selected")] = None,
) -> Response:
    """Create the job, if no more work orders match than were seen; the page of the job shows what becomes of it.

    A few that were selected are done before the answer. An export is no job: the answer is its file.

    Raises:
        ChangedMeanwhileError: more match than the page showed; nothing was changed.
    """
    reason = read_reason(reason)
    wanted = search.read(_parsed(query), datetime.now(UTC)).of_selected(_ids(id_ or []))
    _require_filter(wanted, kind)
    selected = [str(id_) for id_ in wanted.filter.selected or ()]
    if kind == "export":
        with site.reading() as connection:
            dags = _require_of_filter(connection, actor, _RIGHTS[kind], wanted.filter)
        _record(site, actor, kind, dags, {"work_orders": selected, "format": format_, "reason": reason})
        downloads: Downloads = request.app.state.downloads
        return downloads.begin(wanted.filter, format_)
    options = {"from_start": True} if kind == "rerun" and from_start else {}
    with site.writing() as connection:
        dags = _require_of_filter(connection, actor, _RIGHTS[kind], wanted.filter)
        job = jobs.create_job(
            connection,
            kind,
            wanted.filter,
            actor=actor.name,
            account=actor.name,
            reason=reason,
            options=options,
        )
        if seen is not None and job.total > seen:
            raise ChangedMeanwhileError(
                f"{job.total:,} work orders match now, and the page showed {seen:,}, so nothing was changed. Go back, "
                f"look at them, and decide again."
            )
        named = selected or job.total
        _record(site, actor, kind, dags, {"job": job.id, "work_orders": named, "reason": reason, **options})
        connection.commit()
    threads: JobThreads = request.app.state.job_threads
    (threads.run if selected else threads.start)(job.id)
    return RedirectResponse(Place.of(request).page("jobs", job.id), 303)


def _find(connection: Connection, viewer: Viewer, wanted: Search, before: str | None) -> Found:
    after = None if before is None else search.read_id(before)
    rows = work_orders.list_work_orders(connection, wanted.filter, before=after, limit=PAGE)
    until = search_index.indexed_up_to(connection) if wanted.filter.text else None
    names = {row.workflow or "" for row in rows}
    readable = {name for name in names if may_read_texts(viewer, [dag_ids.of_workflow(name)])}
    last = runs.list_last_attempts(connection, [row.id for row in rows])
    attempts = {
        row.id: [hide(attempt, "error", unless=(row.workflow or "") in readable) for attempt in last.get(row.id, ())]
        for row in rows
    }
    return Found(rows, attempts, None if until is None else time_of(until))


def _within(connection: Connection, viewer: Viewer, wanted: Search, workflows: Sequence[str]) -> tuple[Search, bool]:
    """Limit a search to what the user may read; return it, and whether the user has to choose a workflow first.

    Raises:
        ForbiddenError: the user may not read what the search names.
    """
    rights = _rights(Right.READ, wanted.filter)
    readable = [name for name in workflows if all(viewer.may(right, dag_ids.of_workflow(name)) for right in rights)]
    selected = workflows_of(connection, wanted.filter, workflows)
    if set(selected) <= set(readable):
        return wanted, False
    choice = _likely_workflow(connection, wanted.filter, selected, readable)
    if choice is None:
        return wanted, True
    _require_of_workflows(viewer, rights, [choice])
    return search.read({**wanted.given, "workflow": choice}, datetime.now(UTC)), False


def _rights(right: Right, wanted: Filter) -> Sequence[Right]:
    """Return what it takes to act on a search: one by words or by an ordering key answers what inputs contain."""
    asks_inputs = wanted.text is not None or wanted.ordering_key is not None
    return (right, Right.READ_INPUT) if asks_inputs else (right,)


def _likely_workflow(
    connection: Connection, wanted: Filter, selected: Sequence[str], readable: Sequence[str]
) -> str | None:
    """Return the workflow that a user means who may not read all that are selected; None if that is unknown."""
    if wanted.workflow is not None or wanted.id is not None:
        return next(iter(selected), None)
    if wanted.trigger is not None:
        return triggers.find(connection, wanted.trigger).workflow
    return readable[0] if len(readable) == 1 else None


def workflows_of(connection: Connection, wanted: Filter, workflows: Sequence[str]) -> Sequence[str]:
    """Return the workflows, of all there are, whose work orders a filter may select.

    A trigger does not limit them: its work orders keep the workflow that it had when they were created.
    """
    if wanted.workflow is not None:
        return [wanted.workflow]
    if wanted.id is not None:
        return work_orders.list_workflows_of(connection, [wanted.id])
    if wanted.selected is not None:
        return work_orders.list_workflows_of(connection, wanted.selected)
    return workflows


def _record(site: Site, actor: Viewer, kind: Kind, dags: Sequence[str], details: Details) -> None:
    site.record_change(Change(event=_EVENTS[kind], user=actor.name, dag_ids=dags, details=details))


def _require_of_filter(connection: Connection, viewer: Viewer, right: Right, wanted: Filter) -> list[str]:
    """Refuse a user without the right to all that a filter may select; return the Dags that were asked about.

    Raises:
        ForbiddenError: the user does not have it; the sentence names the right and the Dag.
        NotFoundError: no selected work order exists.
    """
    workflows = workflows_of(connection, wanted, list_names(connection))
    if wanted.selected is not None and not workflows:
        raise NotFoundError("The work orders that were selected do not exist any more. Nothing was changed.")
    return _require_of_workflows(viewer, _rights(right, wanted), workflows)


def _require_of_workflows(viewer: Viewer, rights: Sequence[Right], workflows: Sequence[str]) -> list[str]:
    dags = [dag_ids.of_workflow(workflow) for workflow in workflows]
    for dag_id in dags:
        for right in rights:
            viewer.require(right, dag_id)
    return dags


def _require_filter(wanted: Search, kind: Kind) -> None:
    if kind == "export":
        return
    if wanted.is_empty and wanted.filter.since is None:
        raise WrongInputError(
            "All work orders there are were selected; nothing was changed. Limit the search by a time or another field."
        )


def _ids(given: Sequence[str]) -> list[UUID]:
    if len(given) > PAGE:
        raise WrongInputError(f"Nothing was changed: at most {PAGE} work orders are selected one by one.")
    return sorted({search.read_id(text) for text in given})


def _parsed(query: str) -> dict[str, str]:
    return dict(parse_qsl(query))
