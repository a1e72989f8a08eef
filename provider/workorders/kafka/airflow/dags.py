"""The Dags of a Kafka trigger: the listener waits and plans, the ingest creates the work orders.

A task's process needs one of them, and each imports the classes of its tasks only when it is made.
"""

from airflow.sdk import DAG, Param, get_parsing_context

from workorders import dag_ids
from workorders.airflow.dags.factories import continuous_dag, new_dag, owner_and_tags, retried_task
from workorders.airflow.page_links import page_path
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

_RUNS_WITHOUT_LIMIT = 1_000_000
"""More than the partitions of any trigger; each partition is in at most one unfinished batch."""


def make_dags(definition: KafkaTriggerDefinition) -> list[DAG]:
    """Return the listener and the ingest Dag of a trigger; in the process of a task of one of them, only that one.

    Pausing the listener disables the trigger.
    """
    makers = {dag_ids.listener(definition.name): _listener_dag, dag_ids.ingest(definition.name): _ingest_dag}
    wanted = get_parsing_context().dag_id
    return [make(definition) for dag_id, make in makers.items() if wanted == dag_id or wanted not in makers]


def _listener_dag(definition: KafkaTriggerDefinition) -> DAG:
    from workorders.kafka.airflow.plan_batch import PlanBatchOperator  # noqa: PLC0415
    from workorders.kafka.airflow.triggers import WaitForMessagesSensor  # noqa: PLC0415

    ingest_dag_id = dag_ids.ingest(definition.name)
    with continuous_dag(
        dag_ids.listener(definition.name),
        is_paused_upon_creation=True,
        description=definition.description or f"Waits for messages on {', '.join(definition.topics)}",
        **owner_and_tags(definition, definition.type, "listener"),
        doc_md=_LISTENER_DOC.format(
            name=definition.name,
            topics=", ".join(definition.topics),
            ingest=ingest_dag_id,
            page=page_path("kafka", definition.name),
        ),
    ) as dag:
        wait = WaitForMessagesSensor(
            definition=definition,
            ingest_dag_id=ingest_dag_id,
            **retried_task(definition, "wait_for_messages"),
        )
        plan = PlanBatchOperator(
            definition=definition,
            ingest_dag_id=ingest_dag_id,
            **retried_task(definition, "plan_batch"),
        )
        wait >> plan
    return dag


def _ingest_dag(definition: KafkaTriggerDefinition) -> DAG:
    from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator  # noqa: PLC0415
    from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator  # noqa: PLC0415

    with new_dag(
        dag_ids.ingest(definition.name),
        description=f"Creates the work orders of the batches of {definition.name}",
        schedule=None,
        # A stalled batch keeps its Dag run active while it waits for its next try. With a limit here, a few stalled
        # partitions would delay all others. The limit is on running tasks, which excludes those that wait.
        max_active_runs=_RUNS_WITHOUT_LIMIT,
        params={"batch_id": Param(type="integer", minimum=1, title="Batch", description=_BATCH_PARAM)},
        **owner_and_tags(definition, definition.type, "ingest"),
        doc_md=_INGEST_DOC.format(
            name=definition.name,
            group=definition.consumer_group,
            workflow=definition.workflow,
            page=page_path("kafka", definition.name),
        ),
    ) as dag:
        create = CreateWorkOrdersOperator(
            definition=definition,
            listener_dag_id=dag_ids.listener(definition.name),
            max_active_tis_per_dag=definition.max_active_batches,
            **retried_task(definition, "create_work_orders"),
        )
        commit = CommitOffsetsOperator(definition=definition, **retried_task(definition, "commit_offsets"))
        create >> commit
    return dag


_BATCH_PARAM = "Number of a planned batch, as `workorders batches list` shows it; the listener fills it in."

_LISTENER_DOC = """
Waits for messages on **{topics}**, plans the next batch of offset ranges, and triggers `{ingest}` for it.

* The log of `plan_batch` names the batch and the Dag runs of `{ingest}` that it started.
* Pause this Dag to disable the trigger `{name}`. Nothing is lost: it continues at the ledger's positions.
* The last line of the log of a task that is up for retry is its error. It is retried without limit.
* [The page of the trigger]({page}), or `workorders status {name}`, shows every partition.
"""

_INGEST_DOC = """
Creates the work orders of workflow **{workflow}** for the batches of trigger **{name}**: one Dag run per batch, which
grows while messages arrive. The note of a Dag run contains the offset ranges that it began with.

* [The page of the trigger]({page}) shows its partitions and batches, and resolves a stall.
* `create_work_orders` writes the work orders and moves the ledger in one Postgres transaction per partition. The last
  line of a failed try is what failed and where, and when the next try is.
* A *deferred* `create_work_orders` is a stalled batch that waits for its next try without a worker. Its log ends with
  the error.
* `commit_offsets` then commits the ledger's positions to the consumer group `{group}`.
* **Replay**: clear `create_work_orders` of a Dag run. Exactly that batch is ingested again, without duplicates; missing
  work orders are restored.
"""
