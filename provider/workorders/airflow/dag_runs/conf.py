"""The context of a run as JSON, for what is run in place of a function."""

from typing import Any, Final

from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import ContextKeyTakenError

_HEADERS: Final = "headers"


def with_context(body: dict[str, Any], run: ClaimedRun, definition: WorkflowDefinition) -> dict[str, Any]:
    """Return an input with the context of its run under the workflow's `context_key`, or as it is without one.

    Of the headers only those that the workflow carries: others see the conf, and a header may be a secret.

    Raises:
        ContextKeyTakenError: the input has that key.
    """
    key = definition.context_key
    if key is None:
        return body
    if key in body:
        raise ContextKeyTakenError(
            f"The input has the key {key}, under which a run of DAG {definition.dag_id} is to find its context, so "
            f"none was started; give context_key of workflow {definition.name} another name, or null for no context."
        )
    context = Context(
        str(run.run_id),
        str(run.work_order_id),
        run.attempt,
        run.trigger or None,
        request=run.request,
        carry_headers=definition.carry_headers,
    )
    fields = {
        "workflow": definition.name,
        "work_order_id": context.work_order_id,
        "run_id": context.run_id,
        "attempt": context.attempt,
        "trigger": context.trigger,
        "request": {name: value for name, value in context.request.items() if name != _HEADERS},
        "headers": dict(context.headers),
        "traceparent": context.traceparent,
    }
    return {**body, key: fields}
