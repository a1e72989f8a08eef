"""Searches work orders, and reruns, cancels, or exports those that were found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal
from urllib.parse import parse_qsl
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from workorders.core import triggers
from workorders.core.bulk import capacity, export, jobs
from workorders.core.bulk.cancel import cancel_work_orders
from workorders.core.bulk.capacity import WorkflowCapacity
from workorders.core.bulk.jobs import StepResult
from workorders.core.bulk.rerun import rerun_work_orders
from workorders.core.history import runs, search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.history.runs import Attempt
from workorders.core.history.work_orders import WorkOrderSummary
from workorders.core.ids import time_of
from workorders.core.postgres.connection import Connection
from workorders.core.states import WorkOrderState
from workorders.core.workflows import list_names
from workorders.pages import csrf, dag_ids, search, selection
from workorders.pages.access import CurrentViewer, Right, Viewer
from workorders.pages.audit import Change, Details, Event
from workorders.pages.csrf import CurrentActor
from workorders.pages.job_threads import JobThreads
from workorders.pages.problems import ChangedMeanwhileError, WrongInputError
from workorders.pages.rendering import Place, render
from workorders.pages.search import Search
from workorders.pages.site import CurrentSite, Site
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)

PAGE: Final = 50
"""Work orders of a page."""
Kind = Literal["rerun", "cancel"]
_UNFINISHED: Final = ("pending", "running", "parked")
_MAX_REASON: Final = 1_000


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
        found = None if is_choice_needed else _find(connection, wanted, before)
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
    kind: Kind,
    id_: Annotated[list[str] | None, Query(alias="selected")] = None,
) -> HTMLResponse:
    """Show how many work orders a rerun or a cancel would change, and ask for the reason.

    Many are not counted before the first answer: the page comes without its form, and asks for the rest by itself.
    """
    now = datetime.now(UTC)
    is_patient = "hx-request" in request.headers
    ids = _ids(id_ or [])
    wanted = search.read(request.query_params, now).fixed(now)
    counts: Mapping[str, int] | None
    limits: Sequence[WorkflowCapacity] = ()
    with site.reading() as connection:
        if ids:
            _require_of_ids(connection, viewer, Right.ACT, ids)
        else:
            _require_filter(wanted)
            _require_of_filter(connection, viewer, Right.ACT, wanted.filter)
        token = csrf.new_token(csrf.form_key(connection), viewer.id, now)
        if ids:
            counts = work_orders.count_states_of(connection, ids)
        else:
            if kind == "rerun":
                limits = capacity.capacity_for(connection, wanted.filter)
            counts = selection.count(connection, wanted.filter, patiently=is_patient)
    return render(
        request,
        "confirm.html",
        now=now,
        kind=kind,
        ids=ids,
        search=wanted,
        counts=counts,
        is_patient=is_patient,
        total=sum((counts or {}).values()),
        skipped=sum(number for state, number in (counts or {}).items() if _is_skipped(kind, state)),
        limits=limits,
        csrf=token,
        who=viewer.name,
    )


def _is_skipped(kind: Kind, state: str) -> bool:
    """Return whether a work order of a state stays as it is: one that runs is not stopped, and not run twice."""
    return state != "pending" if kind == "cancel" else state in _UNFINISHED


@router.post("/work-orders/apply")
def apply(
    *,
    request: Request,
    site: CurrentSite,
    actor: CurrentActor,
    kind: Annotated[Kind, Form()],
    reason: Annotated[str, Form()] = "",
    query: Annotated[str, Form()] = "",
    seen: Annotated[int | None, Form(ge=0)] = None,
    id_: Annotated[list[str] | None, Form(alias="selected")] = None,
) -> Response:
    """Rerun or cancel: a few work orders at once, and all that match as a job, if they are no more than were seen.

    Raises:
        ChangedMeanwhileError: more match than the page showed; nothing was changed.
    """
    reason = _reason(reason)
    ids = _ids(id_ or [])
    if ids:
        done = _apply_to_few(site, actor, kind, ids, reason)
        return render(request, "applied.html", kind=kind, ids=ids, done=done, who=actor.name)
    wanted = search.read(_parsed(query), datetime.now(UTC))
    _require_filter(wanted)
    with site.writing() as connection:
        dags = _require_of_filter(connection, actor, Right.ACT, wanted.filter)
        job = jobs.create_job(connection, kind, wanted.filter, actor=actor.name, account=actor.name, reason=reason)
        if seen is not None and job.total > seen:
            raise ChangedMeanwhileError(
                f"{job.total:,} work orders match now, and the page showed {seen:,}, so nothing was changed. Go back, "
                f"look at them, and decide again."
            )
        _record(site, actor, kind, dags, {"job": job.id, "work_orders": job.total, "reason": reason})
        connection.commit()
    threads: JobThreads = request.app.state.job_threads
    threads.start(job.id)
    return RedirectResponse(Place.of(request).page("jobs", job.id), 303)


def _apply_to_few(site: Site, actor: Viewer, kind: Kind, ids: Sequence[UUID], reason: str) -> StepResult:
    with site.writing() as connection:
        dags = _require_of_ids(connection, actor, Right.ACT, ids)
        connection.rollback()
        _record(site, actor, kind, dags, {"work_orders": [str(id_) for id_ in ids], "reason": reason})
        with connection.transaction():
            if kind == "rerun":
                return rerun_work_orders(connection, ids, actor=actor.name, reason=reason, alone=len(ids) == 1)
            return cancel_work_orders(connection, ids, actor=actor.name, reason=reason)


@router.get("/work-orders/export")
def export_page(
    request: Request, site: CurrentSite, viewer: CurrentViewer, format_: Annotated[str, Query(alias="format")] = "jsonl"
) -> Response:
    """Send the work orders that match as a file."""
    if format_ not in export.FORMATS:
        raise WrongInputError(f"format: nothing was exported, because this takes one of {', '.join(export.FORMATS)}.")
    now = datetime.now(UTC)
    wanted = search.read(request.query_params, now).fixed(now)
    with site.reading() as connection:
        _require_of_filter(connection, viewer, Right.READ, wanted.filter)
        _require_of_filter(connection, viewer, Right.READ_INPUT, wanted.filter)
    return StreamingResponse(
        _lines(site, wanted.filter, format_),
        media_type="application/octet-stream",
        headers={
            "Content-Disposition": f'attachment; filename="work-orders-{now:%Y%m%d-%H%M%S}.{format_}"',
            "Content-Security-Policy": "sandbox",
        },
    )


def _lines(site: Site, wanted: Filter, format_: str) -> Iterator[str]:
    with site.reading() as connection:
        yield from export.lines(connection, wanted, format_)


def _find(connection: Connection, wanted: Search, before: str | None) -> Found:
    after = None if before is None else search.read_id(before)
    rows = work_orders.list_work_orders(connection, wanted.filter, before=after, limit=PAGE)
    until = search_index.indexed_up_to(connection) if wanted.filter.text else None
    attempts = runs.list_last_attempts(connection, [row.id for row in rows])
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
    return workflows


def _record(site: Site, actor: Viewer, kind: Kind, dags: Sequence[str], details: Details) -> None:
    event: Event = "workorders_rerun" if kind == "rerun" else "workorders_cancel"
    site.record_change(Change(event=event, user=actor.name, dag_ids=dags, details=details))


def _require_of_filter(connection: Connection, viewer: Viewer, right: Right, wanted: Filter) -> list[str]:
    """Refuse a user without the right to all that a filter may select; return the Dags that were asked about."""
    workflows = workflows_of(connection, wanted, list_names(connection))
    return _require_of_workflows(viewer, _rights(right, wanted), workflows)


def _require_of_ids(connection: Connection, viewer: Viewer, right: Right, ids: Sequence[UUID]) -> list[str]:
    return _require_of_workflows(viewer, [right], work_orders.list_workflows_of(connection, ids))


def _require_of_workflows(viewer: Viewer, rights: Sequence[Right], workflows: Sequence[str]) -> list[str]:
    dags = [dag_ids.of_workflow(workflow) for workflow in workflows]
    for dag_id in dags:
        for right in rights:
            viewer.require(right, dag_id)
    return dags


def _require_filter(wanted: Search) -> None:
    if wanted.is_empty and wanted.filter.since is None:
        raise WrongInputError(
            "All work orders there are were selected; nothing was changed. Limit the search by a time or another field."
        )


def _ids(given: Sequence[str]) -> list[UUID]:
    if len(given) > PAGE:
        raise WrongInputError(f"Nothing was changed: at most {PAGE} work orders are selected one by one.")
    return sorted({search.read_id(text) for text in given})


def _reason(given: str) -> str:
    reason = " ".join(given.split())
    if not reason or len(reason) > _MAX_REASON:
        raise WrongInputError(
            f"reason: nothing was changed, because this takes 1 to {_MAX_REASON} characters, which are recorded."
        )
    return reason


def _parsed(query: str) -> dict[str, str]:
    return dict(parse_qsl(query))
