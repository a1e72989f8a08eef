"""Searches work orders."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import Response

from workorders import dag_ids
from workorders.core import triggers
from workorders.core.history import runs, search_index, work_orders
from workorders.core.ids import time_of
from workorders.core.postgres.connection import Connection
from workorders.core.states import WorkOrderState
from workorders.core.workflows import list_names
from workorders.pages import search
from workorders.pages.access import Right, Viewer, hide, may_read_texts
from workorders.pages.search import Search
from workorders.pages.site import CurrentVisit, Visit

PAGE: Final = 50
"""Work orders of a page."""


def page(visit: CurrentVisit, before: str | None = None) -> Response:
    """Show a page of the work orders that match, newest first."""
    viewer = visit.viewer
    wanted = search.read(visit.request.query_params, visit.now)
    with visit.site.reading() as connection:
        workflows = list_names(connection)
        readable = [name for name in workflows if viewer.may(Right.READ, dag_ids.of_workflow(name))]
        wanted, is_choice_needed = _within(connection, visit, wanted, workflows)
        found = {"rows": None} if is_choice_needed else _find(connection, viewer, wanted, before)
        known = [found.name for found in triggers.find_all(connection) if found.workflow in readable]
    return visit.show(
        "work_orders.html",
        search=wanted,
        workflows=readable,
        triggers=known,
        states=[state.value for state in WorkOrderState],
        limit=PAGE,
        is_first=before is None,
        **found,
    )


def _find(connection: Connection, viewer: Viewer, wanted: Search, before: str | None) -> dict[str, Any]:
    """Return a page of work orders, the last runs of each, and up to when words are searched, if any are."""
    after = None if before is None else search.read_id(before)
    rows = work_orders.list_work_orders(connection, wanted.filter, before=after, limit=PAGE)
    until = search_index.indexed_up_to(connection) if wanted.filter.text else None
    names = {row.workflow or "" for row in rows}
    readable = {name for name in names if may_read_texts(viewer, [dag_ids.of_workflow(name)])}
    last = runs.list_last_runs(connection, [row.id for row in rows])
    attempts = {
        row.id: [hide(attempt, "error", unless=(row.workflow or "") in readable) for attempt in last.get(row.id, ())]
        for row in rows
    }
    return {"rows": rows, "last_runs": attempts, "indexed_until": None if until is None else time_of(until)}


def _within(connection: Connection, visit: Visit, wanted: Search, workflows: Sequence[str]) -> tuple[Search, bool]:
    """Limit a search to what the user may read; return it, and whether the user has to choose a workflow first.

    A user who may not read all that is selected means the workflow that it names, or the only readable one.
    """
    rights = search.rights_to(Right.READ, wanted.filter)
    viewer = visit.viewer
    readable = [name for name in workflows if all(viewer.may(right, dag_ids.of_workflow(name)) for right in rights)]
    selected = search.workflows_of(connection, wanted.filter, workflows)
    if set(selected) <= set(readable):
        return wanted, False
    if wanted.filter.workflow is not None or wanted.filter.selected is not None:
        choice = selected[0]
    elif wanted.filter.trigger is not None:
        choice = triggers.find(connection, wanted.filter.trigger).workflow
    elif len(readable) == 1:
        choice = readable[0]
    else:
        return wanted, True
    for right in rights:
        viewer.require(right, dag_ids.of_workflow(choice))
    return search.read({**wanted.given, "workflow": choice}, visit.now), False
