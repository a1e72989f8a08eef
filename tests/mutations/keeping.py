"""Mutations of what keeps deleted work orders from coming back."""

from mutations.mutation import Change, Mutation

RETENTION, REPLAYED = "integration/core/maintenance/test_retention.py", "integration/kafka/ingest/test_retention.py"

DELETED_IS_NOT_NEW = (
    Mutation(
        "deleted-created-again-by-a-replay",
        2,
        (
            Change(
                "core/creation/sql/work_orders.sql",
                "SELECT deleted_positions.to_position > given.position",
                "SELECT false",
            ),
        ),
        (
            f"{RETENTION}::test_a_deleted_work_order_never_comes_back_as_new",
            f"{REPLAYED}::test_a_replay_creates_nothing_that_was_deleted",
        ),
    ),
    Mutation(
        "deleted-taken-for-new-by-starting-over",
        2,
        (
            Change(
                "kafka/ledger/sql/batches.sql",
                ") + (\n    SELECT coalesce",
                ") + 0 * (\n    SELECT coalesce",
            ),
        ),
        (f"{REPLAYED}::test_a_partition_that_starts_over_creates_nothing_that_was_deleted",),
    ),
    Mutation(
        "deletion-in-the-middle-of-a-replay",
        2,
        (
            Change(
                "core/creation/work_orders.py", "deleted_positions.block_deletions(self._connection, number)", "pass"
            ),
        ),
        (f"{RETENTION}::test_what_is_created_again_meanwhile_is_deleted_the_next_time",),
    ),
    Mutation(
        "deleted-reported-as-lost",
        7,
        (Change("kafka/ledger/sql/batches.sql", "least(deleted_positions.to_position, %(end_offset)s)", "0"),),
        (f"{REPLAYED}::test_a_replay_misses_nothing_that_was_deleted_when_kafka_has_it_no_longer",),
    ),
    Mutation(
        "what-waits-is-deleted",
        1,
        (
            Change(
                "core/maintenance/sql/retention.sql",
                "    AND work_orders.id < %(end_id)s\n    AND work_orders.state NOT IN "
                "('pending', 'running', 'parked')\n    AND work_orders.created_at <\n        CASE",
                "    AND work_orders.id < %(end_id)s\n    AND work_orders.created_at <\n        CASE",
            ),
        ),
        (f"{RETENTION}::test_what_ended_well_goes_first_and_errors_are_kept_longer",),
    ),
    Mutation(
        "gap-of-a-lost-work-order-taken-for-deleted",
        7,
        (
            Change(
                "core/creation/sql/deleted_positions.sql", "            AND work_orders <= (", "            AND 0 <= ("
            ),
        ),
        (f"{REPLAYED}::test_a_work_order_that_was_lost_and_not_deleted_is_restored_behind_retention",),
    ),
    Mutation(
        "deleted-messages-of-transactions-a-row-each",
        2,
        (
            Change(
                "core/creation/deleted_positions.py",
                'while connection.execute(_QUERIES["close_gaps"], arguments).rowcount:',
                "while False:",
            ),
        ),
        (f"{REPLAYED}::test_what_was_deleted_of_a_transactional_topic_is_a_row_a_batch",),
    ),
)
