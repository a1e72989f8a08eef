"""One work order: where it came from, its input, and how each run ended."""

from collections.abc import Sequence
from typing import Final, Literal

from fastapi import HTTPException, Response

from workorders import dag_ids
from workorders.core import workflows
from workorders.core.admission import duplicates, gaps
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.history import runs, work_orders
from workorders.core.history.runs import RunRow, runs_of
from workorders.core.history.work_orders import WorkOrder
from workorders.core.items import Item
from workorders.core.selectors import canonical
from workorders.core.states import UNFINISHED, WAITING
from workorders.kafka.ledger import origin
from workorders.outbox import admin
from workorders.pages import search
from workorders.pages.access import Right, hide, may_read_texts
from workorders.pages.site import CurrentVisit
from workorders.visible_text import hexdump

MAX_CHARACTERS: Final = 256 * 1024
"""Of an input, a request, an output, or a log, which are read; a page shows less, and the whole is a download."""
_LOG_LINES: Final = 200
_RAW_BYTES: Final = 2_048
_MAX_PUBLISHED: Final = 50
"""Published messages that are shown."""
_RESULT_CHARACTERS: Final = 1_000
"""Of a step's result, which are read."""
_MOVING: Final = WAITING | {"running"}


def page(visit: CurrentVisit, id_: str) -> Response:
    """Show a work order."""
    viewer = visit.viewer
    with visit.site.reading() as connection:
        found = work_orders.get_work_order(
            connection, search.read_id(id_), max_characters=MAX_CHARACTERS, max_bytes=_RAW_BYTES
        )
        dag_id = _dag_of(found)
        viewer.require(Right.READ, dag_id)
        attempts = runs_of(connection, found.id)
        repeats = duplicates.summary(connection, found.id)
        gap = gaps.find_before(connection, found.id) if found.state == "parked" else None
        sent = admin.list_published(connection, found.id, limit=_MAX_PUBLISHED + 1)
        finished = runs.list_steps(connection, found.id, max_characters=_RESULT_CHARACTERS)
        reads_batch = found.trigger is not None and viewer.may(Right.READ, dag_ids.ingest(found.trigger))
        batch = origin.find_batch(connection, found) if reads_batch else None
        definition = workflows.find(connection, found.workflow).definition if found.workflow else None
        may_act = viewer.may(Right.ACT, dag_id)
    reads_input, reads_texts = viewer.may(Right.READ_INPUT, dag_id), may_read_texts(viewer, [dag_id])
    found = hide(found, "detail", unless=reads_texts)
    attempts = [hide(run, "error", unless=reads_texts) for run in attempts]
    return visit.show(
        "work_order.html",
        order=found,
        runs=attempts,
        repeats=repeats,
        duplicate=duplicates.DUPLICATE,
        gap=gap,
        published=sent[:_MAX_PUBLISHED],
        has_published_more=len(sent) > _MAX_PUBLISHED,
        steps=[hide(step, "name", unless=reads_texts) for step in finished],
        batch=batch,
        no_batch=origin.missing_text(found) if batch is None and reads_batch else None,
        ordering_key=_ordering_key(found, definition) if reads_input else None,
        sentence=sentence(found, attempts),
        reads_input=reads_input,
        raw=hexdump(found.raw, most=_RAW_BYTES) if reads_input and found.raw is not None else None,
        may_act=may_act,
        may_rerun=may_act and found.state not in UNFINISHED,
        may_cancel=may_act and found.state in WAITING,
        dag_id=dag_id,
        seconds=5 if found.state in _MOVING else 60,
    )


def download(visit: CurrentVisit, id_: str, part: Literal["body", "request", "raw"]) -> Response:
    """Send a part of a work order as a file."""
    with visit.site.reading() as connection:
        found = work_orders.get_work_order(connection, search.read_id(id_))
    visit.viewer.require(Right.READ_INPUT, _dag_of(found))
    if part == "raw":
        return attachment(f"{found.id}-raw.bin", found.raw)
    return attachment(f"{found.id}-{part}.json", found.body if part == "body" else found.request)


def run_page(visit: CurrentVisit, id_: str) -> Response:
    """Show a run with its log and its output."""
    viewer = visit.viewer
    with visit.site.reading() as connection:
        run = runs.get_run(connection, search.read_id(id_), max_characters=MAX_CHARACTERS)
        definition = workflows.find(connection, run.workflow).definition
        finished = runs.list_steps(connection, run.work_order_id, until=run, max_characters=_RESULT_CHARACTERS)
    dag_id = dag_ids.of_workflow(run.workflow)
    viewer.require(Right.READ, dag_id)
    reads_texts = may_read_texts(viewer, [dag_id])
    finished = [hide(step, "name", unless=reads_texts) for step in finished]
    reads_log, reads_output = viewer.may(Right.READ_LOG, dag_id), viewer.may(Right.READ_INPUT, dag_id)
    lines = (run.log or "").splitlines() if reads_log else []
    return visit.show(
        "run.html",
        run=hide(run, "error", unless=reads_texts),
        dag_id=dag_id,
        does_dag=definition.dag_id if definition and run.started_at else None,
        dag_run_id=dag_ids.run_of(run.id),
        reads_log=reads_log,
        reads_output=reads_output,
        lines=lines[-_LOG_LINES:],
        has_earlier_lines=run.has_earlier_log or len(lines) > _LOG_LINES,
        end=runs.describe_end(run.state, finished),
        steps=finished,
        seconds=60 if run.finished_at else 5,
    )


def run_download(visit: CurrentVisit, id_: str, part: Literal["log", "output"]) -> Response:
    """Send the log or the output of a run as a file."""
    with visit.site.reading() as connection:
        run = runs.get_run(connection, search.read_id(id_))
    visit.viewer.require(Right.READ_LOG if part == "log" else Right.READ_INPUT, dag_ids.of_workflow(run.workflow))
    return attachment(f"{run.id}.log", run.log) if part == "log" else attachment(f"{run.id}-output.json", run.output)


def attachment(name: str, content: str | bytes | None) -> Response:
    """Return a file that a browser stores and never shows: strangers wrote what is in it."""
    if content is None:
        raise HTTPException(404, "It does not exist, or retention has erased it.")
    return Response(
        content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": "sandbox"},
    )


def sentence(found: WorkOrder, attempts: Sequence[RunRow]) -> str:
    """Return how a work order ended or what it waits for, in a sentence."""
    if found.state == "rejected":
        return f"Rejected ({found.reason}): {found.detail}"
    if found.state == "parked":
        return "Waits for an earlier number of its sequence."
    last = attempts[-1] if attempts else None
    if last is None:
        return "Waits for its first run."
    if found.state == "requeued":
        return f"Waits for run {last.attempt}."
    if found.state == "running":
        gone = f"sends no heartbeat any more. The Dag {dag_ids.MAINTENANCE} recovers the run within five minutes."
        return (
            f"The worker of run {last.attempt} {gone}" if last.is_owner_gone else f"Run {last.attempt} is in progress."
        )
    why = ": ".join(part for part in (last.error_type, last.error) if part)
    return f"Run {last.attempt} of {len(attempts)} ended as {last.state}" + (f": {why}" if why else ".")


def _ordering_key(found: WorkOrder, definition: WorkflowDefinition | None) -> str | None:
    """Return the value of a work order's ordering key, as a search for it is written; None if it has none."""
    if definition is None or definition.ordering_key is None or found.body is None:
        return None
    item = Item(found.stream, found.position, (found.request or "{}").encode(), found.body.encode())
    value = definition.ordering_key.found(item)
    return value if value is None or isinstance(value, str) else canonical(value).decode()


def _dag_of(found: WorkOrder) -> str:
    return dag_ids.of_workflow(found.workflow or "")
