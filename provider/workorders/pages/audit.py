"""The last audit: what `workorders audit` found."""

from fastapi import Response

from workorders import dag_ids
from workorders.audit import stored
from workorders.audit.findings import Finding
from workorders.core.workflows import list_names
from workorders.pages.access import Right, Viewer, hide, may_read_texts
from workorders.pages.site import CurrentVisit


def page(visit: CurrentVisit) -> Response:
    """Show the last audit: of its findings, those of triggers and workflows that the user may read."""
    viewer = visit.viewer
    with visit.site.reading() as connection:
        report = stored.read_report(connection)
        workflows = list_names(connection)
    reads_all = viewer.may(Right.READ, *map(dag_ids.of_workflow, workflows))
    reads_texts = may_read_texts(viewer, map(dag_ids.of_workflow, workflows))
    findings = [found for found in (report.findings if report else ()) if _may_read(viewer, found, reads_all)]
    shown = report and hide(report, "problems", unless=reads_texts)
    return visit.show("audit.html", report=shown, findings=findings, reads_all=reads_all)


def _may_read(viewer: Viewer, finding: Finding, reads_all: bool) -> bool:
    if finding.trigger is not None:
        return viewer.may(Right.READ, dag_ids.ingest(finding.trigger))
    return reads_all if finding.workflow is None else viewer.may(Right.READ, dag_ids.of_workflow(finding.workflow))
