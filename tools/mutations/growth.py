"""Mutations of the growth of a batch."""

from mutations.mutation import Change, Mutation

GROWING, BATCHES = "integration/kafka/ingest/test_growth.py", "integration/kafka/ledger/test_batches.py"
CREATE = "integration/kafka/airflow/test_create_work_orders.py"
PLANNER, SQL = "kafka/planning/planner.py", "kafka/ledger/sql/batches.sql"
GROWTH = "kafka/ingest/ingest_attempt.py"

GROWING_BATCHES = (
    Mutation(
        "growth-without-a-lease",
        3,
        (
            Change(PLANNER, "if not (batches.renew_lease(connection, batch.id, epoch) and", "if not (True and"),
            Change(GROWTH, "return batches.renew_lease(self._database, self._batch.id, self._epoch)", "return True"),
        ),
        (
            f"{GROWING}::test_growth_ends_when_the_lease_is_closed",
            f"{GROWING}::test_an_attempt_that_a_newer_one_has_fenced_adds_nothing",
            f"{GROWING}::test_a_younger_batch_leaves_the_growth_to_the_older_one",
        ),
    ),
    Mutation(
        "free-partitions-planned-beside-a-growing-batch",
        4,
        (Change(PLANNER, "failing if last.is_open else current", "current"),),
        (
            f"{GROWING}::"
            "test_the_listener_leaves_free_partitions_to_a_batch_that_grows_and_plans_them_once_its_lease_has_expired",
        ),
    ),
    Mutation(
        "growth-without-end",
        4,
        (Change(GROWTH, "while time.monotonic() < self._until and (", "while True and ("),),
        (f"{GROWING}::test_growth_ends_with_the_time_slice_although_messages_wait",),
    ),
    Mutation(
        "added-range-keeps-an-older-epoch",
        3,
        (Change("kafka/ledger/positions.py", "[epoch, *(taken + 1 for (taken,) in of_ranges)]", "[epoch]"),),
        (f"{GROWING}::test_a_partition_whose_ledger_has_a_higher_epoch_joins_a_batch",),
    ),
    Mutation(
        "ranges-joined-across-a-gap",
        7,
        (Change(SQL, "lag(end_offset) OVER log IS DISTINCT FROM start_offset", "lag(end_offset) OVER log IS NULL"),),
        (f"{BATCHES}::test_finished_ranges_that_follow_one_another_become_one_and_gaps_and_other_logs_remain",),
    ),
    Mutation(
        "growth-ended-by-another-trigger",
        4,
        (Change(GROWTH, "if attempt.epoch:", "if True:"),),
        (f"{GROWING}::test_a_run_of_another_trigger_ends_the_lease_of_no_batch",),
    ),
    Mutation(
        "growth-after-a-failed-range",
        5,
        (Change("kafka/spark/driver.py", "            if errors:\n                break\n", ""),),
        (
            f"{CREATE}::test_a_range_that_fails_while_the_batch_grows_ends_its_growth_and_the_retry_of_its_task_takes_it",
        ),
    ),
    Mutation(
        "growth-of-a-paused-trigger",
        0,
        (Change("kafka/airflow/ingest_runs.py", "if paused is not None:\n", "if False:\n"),),
        (f"{CREATE}::test_a_batch_does_not_grow_once_one_of_its_dags_is_paused",),
    ),
    Mutation(
        "growth-of-a-stopped-task",
        0,
        (Change("kafka/airflow/create_work_orders.py", "self._attempted.close_lease()", "pass"),),
        (f"{CREATE}::test_a_task_that_is_stopped_lets_its_batch_grow_no_more",),
    ),
)
