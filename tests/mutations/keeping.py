"""Mutations of what keeps deleted work orders from coming back."""

from mutations.mutation import Change, Mutation

INDEXES = "integration/core/test_concurrent_indexes.py"
RETENTION, REPLAYED = "integration/core/maintenance/test_retention.py", "integration/kafka/ingest/test_retention.py"
MERGES, GROUPS = "integration/kafka/ledger/test_batch_merges.py", "unit/kafka/ledger/test_batch_merges.py"
ANY_HISTORY = f"{MERGES}::test_after_any_history_every_offset_is_covered_as_before_and_every_number_finds_its_own"
READ_BATCH = '    row = connection.execute(_QUERIES["batch"], {"batch_id": batch_id}).fetchone()\n'

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
        "unfinished-work-order-never-erased",
        0,
        (
            Change(
                "core/maintenance/sql/retention.sql",
                "SELECT id FROM due WHERE id NOT IN (SELECT id FROM free)",
                "SELECT id FROM due WHERE false",
            ),
        ),
        (
            f"{RETENTION}::test_what_has_not_ended_when_its_turn_comes_is_wiped_once_it_has",
            f"{RETENTION}::test_what_is_in_use_when_its_turn_comes_is_wiped_the_next_time",
        ),
    ),
    Mutation(
        "full-step-skips-what-it-looked-at",
        0,
        (
            Change(
                "core/maintenance/retention.py", 'rows[-1][0] if len(rows) == self._due["limit"] else until', "until"
            ),
        ),
        (f"{RETENTION}::test_wiping_leaves_the_work_order_and_nothing_of_its_input",),
    ),
    Mutation(
        "steps-of-wiping-inside-one-transaction",
        0,
        (
            Change(
                "core/maintenance/retention.py",
                'with self._connection.transaction():\n            found: dict[int, UUID] = dict(self._rows("marks"))',
                'if True:\n            found: dict[int, UUID] = dict(self._rows("marks"))',
            ),
        ),
        (f"{RETENTION}::test_wiping_leaves_the_work_order_and_nothing_of_its_input",),
    ),
    Mutation(
        "mark-of-one-workflow-taken-for-all",
        0,
        (
            Change(
                "core/maintenance/retention.py",
                "return min(wanted, default=None)",
                "return max(wanted, default=None)",
            ),
        ),
        (f"{RETENTION}::test_a_workflow_whose_policy_comes_later_is_wiped_from_its_start",),
    ),
    Mutation(
        "wiping-begins-anew-each-time",
        0,
        (Change("core/maintenance/retention.py", "found.get(id_, UUID(int=0))", "UUID(int=0)"),),
        (f"{RETENTION}::test_wiping_continues_where_it_stopped_and_reads_nothing_before_it_again",),
    ),
    Mutation(
        "index-of-a-large-table-stops-writers",
        4,
        (Change("core/concurrent_indexes.py", 'f"CREATE INDEX CONCURRENTLY {name}', 'f"CREATE INDEX {name}'),),
        (f"{INDEXES}::test_writers_do_not_wait_while_an_index_is_built",),
    ),
    Mutation(
        "rest-of-an-interrupted-build-taken-for-an-index",
        4,
        (Change("core/concurrent_indexes.py", " AND indisvalid", ""),),
        (f"{INDEXES}::test_an_index_of_an_interrupted_build_is_built_again",),
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

MERGED_BATCHES = ()
