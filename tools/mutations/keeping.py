"""Mutations of what keeps deleted work orders from coming back."""

from mutations.mutation import Change, Mutation

STEPS = "integration/core/maintenance/test_retention_of_steps.py"
RETENTION, REPLAYED = "integration/core/maintenance/test_retention.py", "integration/kafka/ingest/test_retention.py"

DELETED_IS_NOT_NEW = (
    Mutation(
        "old-batch-replayed",
        2,
        (
            Change(
                "kafka/ledger/sql/batches.sql",
                "coalesce(batches.planned_at > ",
                "coalesce(true OR batches.planned_at > ",
            ),
        ),
        (
            f"{REPLAYED}::test_a_replay_after_a_partial_retention_is_refused_and_changes_nothing",
            f"{REPLAYED}::test_a_replay_that_retention_overtakes_is_refused_and_changes_nothing",
        ),
    ),
    Mutation(
        "messages-with-older-work-orders-replayed",
        2,
        (Change("kafka/ledger/sql/batches.sql", "AND ranges.existing > 0\n", "AND false\n"),),
        (f"{REPLAYED}::test_a_batch_whose_messages_had_older_work_orders_is_not_replayed",),
    ),
    Mutation(
        "work-orders-deleted-before-their-batch",
        2,
        (
            Change(
                "core/maintenance/retention.py",
                "    for point in entry_points(group=RETENTION_GROUP):\n        retention.shorten(point.load())\n",
                "",
            ),
            Change(
                "core/maintenance/retention.py",
                "    retention.erase()\n",
                "    retention.erase()\n    for point in entry_points(group=RETENTION_GROUP):\n"
                "        retention.shorten(point.load())\n",
            ),
        ),
        (f"{REPLAYED}::test_a_batch_is_deleted_before_the_first_of_its_work_orders",),
    ),
    Mutation(
        "cleared-time-created-again-after-retention",
        2,
        (Change("cron/schedule.py", "made.created and due.is_cleared:", "False:"),),
        (
            "integration/cron/test_schedule.py"
            "::test_a_cleared_task_of_a_time_that_retention_may_have_deleted_creates_nothing",
        ),
    ),
    Mutation(
        "words-of-an-erased-input-written-again",
        0,
        (Change("core/maintenance/retention.py", "            search_index.lock_words(self._connection)\n", ""),),
        (f"{RETENTION}::test_words_of_an_input_that_is_erased_while_they_are_written_do_not_stay",),
    ),
    Mutation(
        "what-waits-is-deleted",
        1,
        (
            Change(
                "core/maintenance/sql/retention.sql",
                "WHERE work_orders.id < %(end_id)s\n-- use: has_ended\n",
                "WHERE work_orders.id < %(end_id)s\n",
            ),
        ),
        (f"{RETENTION}::test_what_ended_well_goes_first_and_errors_are_kept_longer",),
    ),
    Mutation(
        "results-of-steps-outlive-their-input",
        0,
        (
            Change(
                "core/maintenance/sql/retention.sql",
                "DELETE FROM workorders.steps WHERE work_order_id = ANY (%(ids)s)",
                "DELETE FROM workorders.steps WHERE false",
            ),
        ),
        (f"{RETENTION}::test_wiping_leaves_the_work_order_and_nothing_of_its_input",),
    ),
    Mutation(
        "results-of-transactions-outlive-their-work-order",
        0,
        (
            Change(
                "core/maintenance/sql/retention.sql",
                "WHERE workflows.definition #> '{database,connection}' IS NOT NULL",
                "WHERE false",
            ),
        ),
        (f"{STEPS}::test_results_go_a_day_after_their_work_order_can_never_run_again",),
    ),
    Mutation(
        "results-of-transactions-deleted-while-a-lost-process-may-ask-for-them",
        12,
        (
            Change(
                "core/maintenance/sql/retention.sql",
                " AND expired_at < now() - %(wait)s::interval\nORDER BY",
                "\nORDER BY",
            ),
        ),
        (f"{STEPS}::test_results_go_a_day_after_their_work_order_can_never_run_again",),
    ),
)
