"""Mutations of what keeps a slow or large neighbor from holding up the others."""

from mutations.mutation import Change, Mutation

SLOW, PLAN_BATCH = "integration/kafka/test_slow_kafka.py", "integration/kafka/airflow/test_plan_batch.py"

ISOLATION = (
    Mutation(
        "kafka-asked-under-the-locks-of-the-rules",
        4,
        (
            Change("core/work_orders.py", "    if prove is not None:\n        prove()\n", ""),
            Change(
                "core/work_orders.py",
                "    return total\n",
                "    if prove is not None:\n        prove()\n    return total\n",
            ),
        ),
        (
            f"{SLOW}::test_a_webhook_of_the_same_limited_workflow_does_not_wait",
            f"{SLOW}::test_the_same_idempotency_key_in_another_partition_is_taken_at_once_and_refused_here_afterwards",
            f"{SLOW}::test_the_same_sequence_in_another_partition_goes_on",
        ),
    ),
    Mutation(
        "kafka-asked-under-the-locks-of-a-decision",
        4,
        (Change("kafka/resolving.py", "force_rollback=True", "force_rollback=False"),),
        (f"{SLOW}::test_other_partitions_are_planned_and_ingested_while_a_decision_sets_the_group_back",),
    ),
    Mutation(
        "airflow-asked-under-the-locks-of-batches",
        4,
        (Change("kafka/airflow/operators.py", "            database.commit()\n", ""),),
        (f"{PLAN_BATCH}::test_an_attempt_at_a_batch_does_not_wait_while_airflow_is_asked_for_the_runs_of_others",),
    ),
)
