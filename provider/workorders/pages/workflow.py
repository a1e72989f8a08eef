"""A workflow: its work now, how its newest runs went, why they failed, and its limits."""

from typing import Final

from fastapi import Response

from workorders import dag_ids
from workorders.core import workflows
from workorders.core.admission import gaps, limits
from workorders.core.admission.limits import LimitUsage
from workorders.core.history import workload
from workorders.monitoring.problems import find_idle
from workorders.pages.access import Right, hide, may_read_texts
from workorders.pages.site import CurrentVisit
from workorders.pages.states import word_of_workflow

_GAPS: Final = 10


def page(visit: CurrentVisit, name: str) -> Response:
    """Show a workflow."""
    viewer, now, dag_id = visit.viewer, visit.now, dag_ids.of_workflow(name)
    viewer.require(Right.READ, dag_id)
    with visit.site.reading() as connection:
        found = workflows.find(connection, name)
        (work,) = workload.list_workloads(connection, now, workflow=name)
        is_stuck = bool(find_idle(connection, [work], now))
        summary = workload.summarize_runs(connection, name)
        usage = limits.list_usage(connection, found)
        if work.concurrency:
            usage.insert(0, LimitUsage("runs at the same time", work.concurrency, work.running, on_reached=""))
        waiting = gaps.list_gaps(connection, workflow=name, limit=_GAPS)
    paused = visit.site.paused_dags([dag_id]).get(dag_id, False)
    reads_texts = may_read_texts(viewer, [dag_id])
    return visit.show(
        "workflow.html",
        name=name,
        workflow=found,
        work=work,
        summary=summary,
        failures=[hide(failure, "error", unless=reads_texts) for failure in summary.failures],
        limits=usage,
        gaps=waiting,
        reads_input=viewer.may(Right.READ_INPUT, dag_id),
        dag_id=dag_id,
        word=word_of_workflow(work, is_stuck=is_stuck, is_paused=paused),
        paused=paused,
        may_act=viewer.may(Right.ACT, dag_id),
        max_counted=workload.MAX_COUNTED,
        newest=workload.NEWEST_RUNS,
    )
