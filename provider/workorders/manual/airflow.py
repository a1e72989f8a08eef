"""The Dag of a manual trigger: a form, and one task that creates the work order."""

import json
from typing import Any

from airflow.sdk import DAG, BaseOperator, Context, Param

from workorders import dag_ids
from workorders.airflow.connections import database_url
from workorders.airflow.dags.factories import new_dag, owner_and_tags, task_settings
from workorders.airflow.page_links import page_path
from workorders.airflow.task_errors import explain_failures
from workorders.core import triggers
from workorders.core.attribution import Attribution
from workorders.core.creation.create_one import NotAnInputError, create_by_hand
from workorders.core.postgres.connection import connect
from workorders.manual.definition import ManualTriggerDefinition


def make_dags(definition: ManualTriggerDefinition) -> list[DAG]:
    """Return the Dag with the form."""
    with new_dag(
        dag_ids.manual(definition.name),
        schedule=None,
        description=definition.description or f"Creates a work order of {definition.workflow} by hand",
        params=_params(definition),
        **owner_and_tags(definition, definition.type),
        doc_md=_DOC.format(
            name=definition.name,
            workflow=definition.workflow,
            page=page_path("work-orders", trigger=definition.name),
        ),
    ) as dag:
        CreateByHandOperator(definition=definition, **task_settings(definition, "create_work_order"))
    return [dag]


def _params(definition: ManualTriggerDefinition) -> dict[str, Param]:
    return {
        "body": Param(
            definition.example, type="object", title="Input", description="The input of the work order: a JSON object."
        ),
        "reason": Param("", type="string", title="Reason", description="The reason, stored with the work order."),
        "actor": Param(
            None,
            type=["null", "string"],
            title="Actor",
            description="Who requests it; empty for the user of this page, who is stored in any case.",
        ),
        "key": Param(
            None,
            type=["null", "string"],
            title="Key",
            description="Identifies the event: the same key creates nothing twice. Empty for a new event.",
        ),
    }


class CreateByHandOperator(BaseOperator):
    """Creates the work order of the Dag run's form; when it is cleared, it finds the work order."""

    ui_color = "#e8f5e9"

    def __init__(self, *, definition: ManualTriggerDefinition, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition

    def execute(self, context: Context) -> str | None:
        """Create the work order and return its id; an input that cannot be one fails the task for good."""
        params, run = context["params"], context["dag_run"]
        # Where Airflow runs without users, it names none.
        user = run.triggering_user_name or "unknown user"
        by = Attribution(params["actor"] or user, params["reason"], user)
        body = json.dumps(params["body"], ensure_ascii=False).encode("utf-8", "surrogatepass")
        # Without a key, the Dag run is the event: a task that is cleared creates nothing twice.
        key = params["key"] or f"{run.dag_id}/{run.run_id}"
        where = f"Trigger {self.definition.name}"
        with (
            explain_failures(self, context, where, "No work order was created.", final=(NotAnInputError,)),
            connect(
                database_url(self.definition.database_connection), application_name="workorders manual", autocommit=True
            ) as database,
        ):
            trigger = triggers.register_definition(database, self.definition)
            made = create_by_hand(database, trigger, body, by, key=key)
        self.log.info("%s: %s.", where, made)
        return None if made.id is None else str(made.id)


_DOC = """
Creates a work order of workflow **{workflow}** by hand: trigger this Dag and fill in the form.

* The work order belongs to the trigger `{name}` and records the actor and the reason.
* `workorders create {name}` does the same from a terminal.
* A task that is cleared finds its work order and creates nothing twice.
* The page of work orders lists [those of this trigger]({page}).
"""
