"""Jobs for the tests of execution, and what became of them."""

import json
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from workorders.core.worker.model import Invocation, InvocationResult, Specification
from workorders.core.worker.process_pool import ProcessPool

_SECONDS = 60.0


def invocation(body: Any, *, request: Any = None, ordering_key: int | None = None) -> Invocation:
    """Return an invocation with that input."""
    content = json.dumps(request or {}).encode()
    return Invocation(str(uuid4()), str(uuid4()), 1, json.dumps(body).encode(), content, "orders", ordering_key)


def specification(function: str = "behave", **fields: Any) -> Specification:
    """Return what runs one of `run_functions`."""
    return Specification(callable=f"support.run_functions:{function}", **fields)


def results(pool: ProcessPool, invocations: Iterable[Invocation]) -> list[InvocationResult]:
    """Run the invocations, and return their results in the order of the invocations."""
    invocations = list(invocations)
    pool.submit(invocations)
    found: dict[str, InvocationResult] = {}
    while pool.unfinished:
        found |= {result.invocation.run_id: result for result in pool.poll(_SECONDS)}
    return [found[one.run_id] for one in invocations]
