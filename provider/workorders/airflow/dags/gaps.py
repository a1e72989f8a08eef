"""The Dag that alerts of gaps in a trigger's sequences."""

from datetime import timedelta
from typing import Final

from airflow.sdk import DAG

from workorders.airflow.dags.factories import owner_and_tags, scheduled_dag
from workorders.airflow.operators.sequence_gaps import AlertSequenceGapsOperator
from workorders.airflow.page_links import page_path
from workorders.core.definitions.trigger import TriggerDefinition

EVERY: Final = "*/5 * * * *"


def gap_dag(definition: TriggerDefinition) -> DAG:
    """Return the Dag that watches the sequences of a trigger."""
    with scheduled_dag(
        f"{definition.name}_gaps",
        EVERY,
        dag_display_name=f"{definition.name}: gaps",
        description=f"Alerts when a gap in a sequence of {definition.name} lasts too long or parks too much",
        # It changes nothing, and a trigger with sequences should alert without being unpaused.
        is_paused_upon_creation=False,
        **owner_and_tags(definition, definition.type, "gaps"),
        doc_md=_DOC.format(
            name=definition.name, page=page_path("work-orders", trigger=definition.name, state="parked")
        ),
    ) as dag:
        AlertSequenceGapsOperator(
            task_id="check_gaps",
            trigger_name=definition.name,
            notify=definition.notify,
            database_connection=definition.database_connection,
            retries=2,
            retry_delay=timedelta(minutes=1),
        )
    return dag


_DOC = """
Watches the sequences of trigger **{name}**. A Dag run fails once for each gap that lasts longer than `alert_after` or
parks more than `alert_above_parked`. Its log contains what to do, and the notifiers that `notify` names are called. The
next Dag run succeeds, because each gap is alerted of once, and once more when it is closed.

`workorders sequences list --trigger {name}` shows the current gaps. The
page of work orders lists [those that wait for one]({page}). Pause this Dag to stop its alerts.
"""
