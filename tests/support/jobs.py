"""Jobs for the tests of execution, and what became of them."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from workorders.core.worker.model import Job, Outcome, Specification
from workorders.core.worker.process_pool import Pool

_SECONDS = 60.0


def job(body: Any, *, request: Any = None, lane: int | None = None) -> Job:
    """Return a job with that input."""
    content = json.dumps(request or {}).encode()
    return Job(str(uuid4()), str(uuid4()), 1, json.dumps(body).encode(), content, "orders", lane)


def specification(function: str = "behave", **fields: Any) -> Specification:
    """Return what runs one of `run_functions`."""
    return Specification(callable=f"support.run_functions:{function}", **fields)


def outcomes(pool: Pool, jobs: Iterable[Job]) -> list[Outcome]:
    """Run the jobs, and return their outcomes in the order of the jobs."""
    jobs = list(jobs)
    pool.submit(jobs)
    found: dict[str, Outcome] = {}
    while pool.unfinished:
        found |= {outcome.job.run_id: outcome for outcome in pool.poll(_SECONDS)}
    return [found[one.run_id] for one in jobs]
