"""Two Dags around the public sensor and operators, with your own task after each batch."""

from datetime import UTC, datetime
from typing import Any

from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.sdk import DAG, Param, task

from workorders.airflow import unlimited_retries
from workorders.kafka.airflow import (
    CommitOffsetsOperator,
    CreateWorkOrdersOperator,
    PlanBatchOperator,
    WaitForMessagesSensor,
)
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

TRIGGER = KafkaTriggerDefinition(name="shop", workflow="ship", topics=("shop.orders",), max_messages=50_000)
START = datetime(2024, 1, 1, tzinfo=UTC)

# Retries after 1, 2, 4 ... 60 s, without limit; a clear restarts the count.
UNLIMITED = unlimited_retries()


@task
def count_rejected(**context: Any) -> int:
    """Return how many messages of the batch could not be an input."""
    query = "SELECT coalesce(sum(rejected), 0) FROM workorders.kafka_ranges WHERE batch_id = %s"
    (rejected,) = PostgresHook("workorders_db").get_first(query, parameters=(context["params"]["batch_id"],))
    return int(rejected)


with DAG("shop_listener", schedule="@continuous", start_date=START, max_active_runs=1) as listener:
    wait = WaitForMessagesSensor(
        task_id="wait_for_messages", definition=TRIGGER, ingest_dag_id="shop_ingest", **UNLIMITED
    )
    plan = PlanBatchOperator(task_id="plan_batch", definition=TRIGGER, ingest_dag_id="shop_ingest", **UNLIMITED)
    wait >> plan

BATCH = Param(type="integer", minimum=1)

# A stalled batch is a run that stays active: what is limited is how many work at once, not how many there are.
with DAG("shop_ingest", schedule=None, max_active_runs=1000, params={"batch_id": BATCH}) as ingest:
    create = CreateWorkOrdersOperator(
        task_id="create_work_orders",
        definition=TRIGGER,
        listener_dag_id="shop_listener",
        max_active_tis_per_dag=4,
        conf={"spark.driver.extraJavaOptions": "-Dlog4j2.level=WARN"},
        **UNLIMITED,
    )
    commit = CommitOffsetsOperator(task_id="commit_offsets", definition=TRIGGER, **UNLIMITED)
    create >> [commit, count_rejected()]
