"""The last audit: what `workorders audit` found."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from workorders import dag_ids
from workorders.audit import stored
from workorders.audit.findings import Finding
from workorders.core.workflows import list_names
from workorders.pages.access import CurrentViewer, Right, Viewer, hide, may_read_texts
from workorders.pages.rendering import render
from workorders.pages.site import CurrentSite
from workorders.pages.threads import PageRoute

router = APIRouter(route_class=PageRoute)


@router.get("/audit")
def page(request: Request, site: CurrentSite, viewer: CurrentViewer) -> HTMLResponse:
    """Show the last audit: of its findings, those of triggers and workflows that the user may read."""
    with site.reading() as connection:
        report = stored.read_report(connection)
        workflows = list_names(connection)
    reads_all = viewer.may(Right.READ, *map(dag_ids.of_workflow, workflows))
    reads_texts = may_read_texts(viewer, map(dag_ids.of_workflow, workflows))
    findings = [found for found in (report.findings if report else ()) if _may_read(viewer, found, reads_all)]
    return render(
        request,
        "audit.html",
        report=report and hide(report, "problems", unless=reads_texts),
        findings=findings,
        reads_all=reads_all,
    )


def _may_read(viewer: Viewer, finding: Finding, reads_all: bool) -> bool:
    if finding.trigger is not None:
        return viewer.may(Right.READ, dag_ids.ingest(finding.trigger))
    return reads_all if finding.workflow is None else viewer.may(Right.READ, dag_ids.of_workflow(finding.workflow))
