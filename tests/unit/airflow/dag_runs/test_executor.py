"""The context that the conf of a Dag run contains in addition to the input."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from workorders.airflow.dag_runs.executor import with_context
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.worker.exceptions import ContextKeyTakenError

TRACE = "0af7651916cd43dd8448eb211c80319c"
REQUEST = {
    "topic": "visits",
    "headers": [["traceparent", f"00-{TRACE}-b7ad6b7169203331-01"], ["ward", "b"], ["authorization", "secret"]],
}
RUN = ClaimedRun(
    *(UUID(int=1), UUID(int=2), 3, None, "clinic", "visits", 7),
    request=json.dumps(REQUEST).encode(),
    body=b"{}",
)


def definition(**fields: Any) -> WorkflowDefinition:
    """Return a workflow that runs a DAG."""
    return WorkflowDefinition(name="visit", dag_id="visits", carry_headers=("ward",), **fields)


def test_a_dag_run_finds_its_context_next_to_the_input_and_no_header_that_is_not_carried() -> None:
    conf = with_context({"bed": 3}, RUN, definition())
    context = conf.pop("workorders_context")
    assert conf == {"bed": 3}
    assert context.pop("traceparent").split("-")[1] == TRACE
    assert context == {
        "workflow": "visit",
        "work_order_id": str(UUID(int=2)),
        "run_id": str(UUID(int=1)),
        "attempt": 3,
        "trigger": "clinic",
        "request": {"topic": "visits"},
        "headers": {"ward": "b"},
    }


def test_the_key_of_the_context_is_the_workflows_choice_and_null_leaves_it_out() -> None:
    assert set(with_context({"bed": 3}, RUN, definition(context_key="run"))) == {"bed", "run"}
    assert with_context({"bed": 3}, RUN, definition(context_key=None)) == {"bed": 3}


def test_an_input_that_has_the_key_is_refused_with_the_field_that_names_another() -> None:
    with pytest.raises(ContextKeyTakenError, match=r"key bed, .* give context_key of workflow visit another name"):
        with_context({"bed": 3}, RUN, definition(context_key="bed"))


def test_a_work_order_that_no_trigger_made_has_none_in_its_context() -> None:
    assert with_context({}, replace(RUN, trigger=""), definition())["workorders_context"]["trigger"] is None
