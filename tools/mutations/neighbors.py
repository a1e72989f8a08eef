"""Mutations of what keeps a slow or large neighbor from holding up the others."""

from mutations.mutation import Change, Mutation

INGEST_RUNS = "unit/kafka/airflow/test_ingest_runs.py"
CREATE, COMMIT = (
    "integration/kafka/airflow/test_create_work_orders.py",
    "integration/kafka/airflow/test_commit_offsets.py",
)
BULK = "integration/core/bulk/test_runner.py"
SLOW, PLAN_BATCH = "integration/kafka/planning/test_slow_kafka.py", "integration/kafka/airflow/test_plan_batch.py"

ISOLATION = (
    Mutation(
        "kafka-asked-under-the-locks-of-the-rules",
        4,
        (
            Change("core/creation/work_orders.py", "    if prove is not None:\n        prove()\n", ""),
            Change(
                "core/creation/work_orders.py",
                "    return total\n",
                "    if prove is not None:\n        prove()\n    return total\n",
            ),
        ),
        (
            f"{SLOW}::test_a_webhook_of_the_same_limited_workflow_does_not_wait",
            f"{SLOW}::test_the_same_idempotency_key_in_another_partition_is_taken_at_once_and_refused_here_afterwards",
            f"{SLOW}::test_the_same_sequence_in_another_partition_continues",
        ),
    ),
    Mutation(
        "kafka-asked-under-the-locks-of-a-decision",
        4,
        (Change("kafka/recovery/resolution.py", "force_rollback=True", "force_rollback=False"),),
        (f"{SLOW}::test_other_partitions_are_planned_and_ingested_while_a_decision_sets_the_group_back",),
    ),
    Mutation(
        "airflow-asked-in-a-transaction",
        4,
        (Change("kafka/airflow/plan_batch.py", "label\n                database.commit()", "label\n"),),
        (f"{PLAN_BATCH}::test_no_transaction_is_open_while_airflow_is_asked",),
    ),
    Mutation(
        "active-run-cleared",
        4,
        (Change("kafka/airflow/ingest_runs.py", "if dag_runs.unfinished([name]):", "if False:"),),
        (f"{INGEST_RUNS}::test_an_active_run_is_never_cleared",),
    ),
    Mutation(
        "batch-of-another-trigger-taken",
        4,
        (Change("kafka/ledger/batches.py", "if owner != trigger:", "if False:"),),
        (
            f"{CREATE}::test_a_batch_of_another_trigger_is_refused_before_anything_is_done",
            f"{COMMIT}::test_offsets_of_another_triggers_batch_are_not_committed",
        ),
    ),
    Mutation(
        "batch-by-the-configuration-of-its-run",
        1,
        (Change("kafka/airflow/ingest_runs.py", "task.batch_of(run_id) or params.batch_id", "params.batch_id"),),
        (f"{CREATE}::test_a_run_that_is_named_by_a_batch_is_for_that_batch_whatever_its_configuration_contains",),
    ),
    Mutation(
        "rejected-values-held-together",
        4,
        (
            Change("core/bulk/revalidation.py", "cursor.itersize = 1 ", "cursor.itersize = 1_000 "),
            Change("core/history/work_orders.py", "total <= STEP_BYTES for total", "True for _"),
        ),
        (f"{BULK}::test_a_rerun_of_large_rejected_values_holds_one_of_them_at_a_time",),
    ),
)
