"""Two workflows and one worker: the long backlog of one does not keep the other waiting."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.eventually import eventually
from support.workflow_in_airflow import Orders

pytestmark = pytest.mark.long

SECONDS = 420.0
BOUND_SECONDS = 150.0
"""Twice two time slices of 10 s, each with one run and the start of a task; the backlog would last ten minutes."""
BACKLOG = 3000


@pytest.fixture
def crowded(airflow_stack: LocalStack) -> Iterator[Orders]:
    """A workflow with far more to do than it comes to; what is left of it is cancelled."""
    orders = Orders(airflow_stack.database_url, "crowded")
    yield orders
    orders.cancel()


@pytest.mark.usefixtures("one_worker")
def test_a_few_runs_are_finished_soon_while_another_workflows_backlog_has_the_only_worker(
    airflow_stack: LocalStack, api: AirflowApi, crowded: Orders, tmp_path: Path
) -> None:
    sparse = Orders(airflow_stack.database_url, "sparse")
    file = str(tmp_path / "noted")
    eventually(lambda: {"crowded_runs", "sparse_runs"} <= api.dag_ids(), seconds=SECONDS, what="the DAGs", every=1)
    crowded.create([{"file": file, "word": "crowded", "seconds": 0.2}] * BACKLOG)
    eventually(lambda: crowded.count("success") > 0, seconds=SECONDS, what="the first end of the backlog")
    sparse.create([{"file": file, "word": "sparse"}] * 3)
    eventually(lambda: sparse.count("success") == 3, seconds=BOUND_SECONDS, what="the end of the few runs")
    done = crowded.count("success")
    eventually(lambda: crowded.count("success") > done, seconds=BOUND_SECONDS, what="progress of the backlog")
    assert crowded.count("pending") > BACKLOG / 2
