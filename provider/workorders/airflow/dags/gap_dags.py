"""The Dag that alerts of gaps in a trigger's sequences."""

from datetime import timedelta
from typing import Final

from airflow.sdk import DAG

from workorders.airflow.dags.factories import by_clock
from workorders.airflow.operators.sequence_gaps import WatchGapsOperator
from workorders.core.definitions.trigger import TriggerDefinition

EVERY: Final = "*/5 * * * *"


def gap_dag(definition: TriggerDefinition) -> DAG:
    """Return the DAG that watches the sequences of a trigger."""
    with by_clock(
        f"{definition.name}_gaps",
        EVERY,
        description=f"Says when a gap in a sequence of {definition.name} lasts too long or parks too much",
        # It only watches: whoever asked for sequences need not know that something has to be switched on as well.
        is_paused_upon_creation=False,
        default_args={"owner": definition.owner},
        tags=sorted({"workorders", definition.type, definition.name, "gaps", *definition.tags}),
        doc_md=_DOC.format(name=definition.name),
    ) as dag:
        WatchGapsOperator(
            task_id="check_gaps",
            trigger_name=definition.name,
            notify=definition.notify,
            database_connection=definition.database_connection,
            retries=2,
            retry_delay=timedelta(minutes=1),
        )
    return dag


_DOC = """
Watches the sequences of trigger **{name}**. A run is red once for every gap that lasts longer than `alert_after`, or
parks more than `alert_above_parked`, and its log says what can be done; what `notify` names is told. The next run is
green again, for each gap is said once, and once more when it is closed.

`workorders sequences list --trigger {name}` shows what has a gap now. Pause this DAG to hear nothing of it.
"""
