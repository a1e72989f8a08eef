"""The Dags of Kafka triggers: the listener waits and plans, the ingest creates the work orders, a person resolves."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param

from workorders.airflow.dags.factories import START, continuous_dag, manual_dag
from workorders.airflow.retries import unlimited_retries
from workorders.core.definitions.loading import load_trigger, yaml_files
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.airflow.operators import CommitOffsetsOperator, CreateWorkOrdersOperator
from workorders.kafka.airflow.plan_batch import PlanBatchOperator
from workorders.kafka.airflow.resolve import ResolveOperator, resolve_params
from workorders.kafka.airflow.sensors import WaitForMessagesSensor
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

RESOLVE_DAG = "workorders_resolve"

_RUNS_WITHOUT_LIMIT = 1_000_000
"""More than the partitions of any trigger; each partition is in at most one unfinished batch."""


def make_dags(definition: KafkaTriggerDefinition) -> list[DAG]:
    """Return the listener and the ingest Dag of a trigger. Pausing the listener disables the trigger."""
    ingest = _ingest_dag(definition)
    return [_listener_dag(definition, ingest.dag_id), ingest]


def resolve_dags(folder: Path) -> dict[str, DAG]:
    """Return the Dag by which a person decides on any Kafka trigger of a folder, by id; none without such a trigger.

    A file with a mistake is left out; it has a Dag of its own that fails with the mistake.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    definitions: dict[str, KafkaTriggerDefinition] = {}
    for path in yaml_files(folder, "trigger"):
        with suppress(ConfigurationError):
            definition = load_trigger(path)
            if isinstance(definition, KafkaTriggerDefinition):
                definitions.setdefault(definition.name, definition)
    return {RESOLVE_DAG: _resolve_dag(list(definitions.values()))} if definitions else {}


def _listener_dag(definition: KafkaTriggerDefinition, ingest_dag_id: str) -> DAG:
    with continuous_dag(
        f"{definition.name}_listener",
        description=definition.description or f"Waits for messages on {', '.join(definition.topics)}",
        default_args=_default_args(definition),
        tags=_tags(definition, "listener"),
        doc_md=_LISTENER_DOC.format(name=definition.name, topics=", ".join(definition.topics), ingest=ingest_dag_id),
    ) as dag:
        wait = WaitForMessagesSensor(
            task_id="wait_for_messages", definition=definition, ingest_dag_id=ingest_dag_id, **unlimited_retries()
        )
        plan = PlanBatchOperator(
            task_id="plan_batch", definition=definition, ingest_dag_id=ingest_dag_id, **unlimited_retries()
        )
        wait >> plan
    return dag


def _ingest_dag(definition: KafkaTriggerDefinition) -> DAG:
    with DAG(
        dag_id=f"{definition.name}_ingest",
        description=f"Creates the work orders of the batches of {definition.name}",
        schedule=None,
        start_date=START,
        # A stalled batch keeps its Dag run active while it waits for its next try. With a limit here, a few stalled
        # partitions would delay all others. The limit is on running tasks, which excludes those that wait.
        max_active_runs=_RUNS_WITHOUT_LIMIT,
        default_args=_default_args(definition),
        params={"batch_id": Param(type="integer", minimum=1, title="Batch", description=_BATCH_PARAM)},
        tags=_tags(definition, "ingest"),
        doc_md=_INGEST_DOC.format(name=definition.name, group=definition.group, workflow=definition.workflow),
    ) as dag:
        create = CreateWorkOrdersOperator(
            task_id="create_work_orders",
            trigger_name=definition.name,
            kafka_connection=definition.kafka_connection,
            database_connection=definition.database_connection,
            max_rejected_share=definition.max_rejected_share,
            alert_after=definition.alert_after,
            notify=definition.notify,
            conn_id=definition.spark_connection,
            name=f"workorders {definition.name}",
            conf=dict(definition.spark.conf),
            driver_memory=definition.spark.driver_memory,
            executor_memory=definition.spark.executor_memory,
            executor_cores=definition.spark.executor_cores,
            num_executors=definition.spark.num_executors,
            max_active_tis_per_dag=definition.active_batches,
            **_pool(definition),
            **unlimited_retries(),
        )
        commit = CommitOffsetsOperator(task_id="commit_offsets", definition=definition, **unlimited_retries())
        create >> commit
    return dag


def _resolve_dag(definitions: list[KafkaTriggerDefinition]) -> DAG:
    with manual_dag(
        RESOLVE_DAG,
        description="Makes an operator's decision on partitions of a Kafka trigger",
        params=resolve_params(definitions),
        tags=["kafka", "resolve", "workorders"],
        doc_md=_RESOLVE_DOC,
    ) as dag:
        ResolveOperator(task_id="apply_decision", definitions=definitions)
    return dag


def _default_args(definition: KafkaTriggerDefinition) -> dict[str, Any]:
    return {"owner": definition.owner}


def _pool(definition: KafkaTriggerDefinition) -> dict[str, Any]:
    return {} if definition.pool is None else {"pool": definition.pool}


def _tags(definition: KafkaTriggerDefinition, role: str) -> list[str]:
    return sorted({"workorders", definition.type, definition.name, role, *definition.tags})


_BATCH_PARAM = "Number of a planned batch, as `workorders batches list` shows it; the listener fills it in."

_LISTENER_DOC = """
Waits for messages on **{topics}**, plans the next batch of offset ranges, and triggers `{ingest}` for it.

* The log of `plan_batch` names the batch and the Dag runs of `{ingest}` that it started.
* Pause this Dag to disable the trigger `{name}`. Nothing is lost: it continues at the ledger's positions.
* The last line of the log of a task that is up for retry is its error. It is retried without limit.
* `workorders status {name}` shows every partition.
"""

_RESOLVE_DOC = """
Makes an operator's decision where a partition of a Kafka trigger cannot continue by itself, because Kafka has lost
data: the form of `workorders resolve`.

* With **dry run**, the default, the log contains what would be done, and nothing is changed.
* It refuses while an attempt at the partition's batch is active, and if the decision does not fit.
* What was decided is recorded with actor, time and reason: `workorders decisions`.
"""

_INGEST_DOC = """
Creates the work orders of workflow **{workflow}** for the batches of trigger **{name}**: one Dag run per batch. The
note of a Dag run contains its offset ranges.

* `create_work_orders` writes the work orders and moves the ledger in one Postgres transaction per partition. The last
  line of a failed try is what failed and where, and when the next try is.
* `commit_offsets` then commits the ledger's positions to the consumer group `{group}`.
* **Replay**: clear `create_work_orders` of a Dag run. Exactly that batch is ingested again, without duplicates; missing
  work orders are restored.
"""
