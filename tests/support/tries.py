"""A try of a task, as far as an operator looks at it when it fails."""

from types import SimpleNamespace
from typing import Any

from workorders.airflow.retries import UNLIMITED_RETRIES


def a_try(number: int = 1, *, max_tries: int = UNLIMITED_RETRIES, **more: Any) -> Any:
    """Return the context of a try; `more` is what else the context holds."""
    ti = SimpleNamespace(run_id="a run", try_number=number, max_tries=max_tries)
    return {"ti": ti, **more}
