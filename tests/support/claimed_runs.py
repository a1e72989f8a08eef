"""Claimed runs for the tests of execution, and their results."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker.process_pool import ProcessPool

_SECONDS = 60.0


def run_of(body: Any, *, request: Any = None, ordering_key: int | None = None) -> ClaimedRun:
    """Return a claimed run with that input."""
    content = json.dumps(request or {}).encode()
    return ClaimedRun(uuid4(), uuid4(), 1, ordering_key, "orders", None, None, content, json.dumps(body).encode())


def calling(function: str = "behave", **fields: Any) -> WorkflowDefinition:
    """Return a workflow that calls one of `run_functions`."""
    given = {"processes": 1, **fields}
    return WorkflowDefinition(name="test", callable=f"support.run_functions:{function}", **given)


def results(pool: ProcessPool, runs: Iterable[ClaimedRun]) -> list[RunResult]:
    """Execute the runs, and return their results in the order of the runs."""
    runs = list(runs)
    pool.unsent.put(runs)
    found: dict[UUID, RunResult] = {}
    while pool.unfinished:
        found |= {result.run_id: result for result in pool.poll(_SECONDS)}
    return [found[run.run_id] for run in runs]
