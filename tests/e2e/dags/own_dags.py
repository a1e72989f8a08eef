"""DAGs written by hand from the public sensor and operators, as people do who want other tasks in them."""

from datetime import UTC, datetime

from airflow.sdk import DAG

from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator
from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator
from workorders.kafka.airflow.plan_batch import PlanBatchOperator
from workorders.kafka.airflow.triggers import WaitForMessagesSensor
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

own = KafkaTriggerDefinition(name="own", workflow="register_event", topics=("e2e.own",))

with DAG("own_listener", schedule="@continuous", start_date=datetime(2024, 1, 1, tzinfo=UTC), max_active_runs=1):
    # A worker starts the sensor and defers it to the triggerer.
    wait = WaitForMessagesSensor(task_id="wait", definition=own, start_from_trigger=False)
    wait >> PlanBatchOperator(task_id="plan", definition=own, ingest_dag_id="own_ingest")

with DAG("own_ingest", schedule=None):
    create = CreateWorkOrdersOperator(task_id="create", definition=own)
    create >> CommitOffsetsOperator(task_id="commit", definition=own)
