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

MERGED_BATCHES = (
    Mutation(
        "batches-merged-across-a-gap",
        7,
        (
            Change(
                "kafka/ledger/batch_merges.py",
                "follows = all(ends.get(log[:2], (log, start)) == (log, start) for log, (start, _) in "
                "batch.ranges.items())",
                "follows = True",
            ),
        ),
        (f"{GROUPS}::test_ranges_that_do_not_follow_one_another_stay_apart", ANY_HISTORY),
    ),
    Mutation(
        "batches-of-two-logs-merged",
        7,
        (
            Change(
                "kafka/ledger/batch_merges.py",
                "ends.get(log[:2], (log, start)) == (log, start)",
                "ends.get(log[:2], (log, start))[1] == start",
            ),
        ),
        (f"{GROUPS}::test_offsets_of_another_log_stay_apart", ANY_HISTORY),
    ),
    Mutation(
        "batch-merged-during-its-replay",
        7,
        (Change("kafka/ledger/batch_merges.py", "can_merge=batch.id in free)", "can_merge=batch.can_merge)"),),
        (f"{MERGES}::test_a_running_attempt_keeps_its_batch_as_it_is",),
    ),
    Mutation(
        "attempt-at-a-number-that-was-merged",
        7,
        (
            Change(
                "kafka/ledger/attempt_lock.py",
                'if not fetch_row(connection, _QUERIES["batch_exists"], {"batch_id": batch_id})[0]:',
                "if False:",
            ),
        ),
        (f"{MERGES}::test_an_attempt_that_begins_during_a_merge_waits_for_it_and_is_told_to_look_again",),
    ),
    Mutation(
        "unfinished-batches-merged",
        1,
        (
            Change(
                "kafka/ledger/sql/batch_merges.sql",
                "coalesce(ranges.finished_at < %(before)s, false) AS is_old",
                "coalesce(ranges.finished_at < %(before)s, true) AS is_old",
            ),
        ),
        (ANY_HISTORY,),
    ),
    Mutation(
        "counts-of-merged-batches-forgotten",
        7,
        (Change("kafka/ledger/sql/batch_merges.sql", "sum(parts.existing)", "max(parts.existing)"),),
        (f"{MERGES}::test_each_number_of_a_merged_batch_finds_it_with_its_range_and_its_counts", ANY_HISTORY),
    ),
    Mutation(
        "parts-of-one-batch-taken-for-the-merged-range",
        7,
        (
            Change(
                "kafka/ledger/batch_merges.py",
                '    connection.execute(_QUERIES["delete_virtual_partitions"], into)\n',
                "",
            ),
        ),
        (f"{MERGES}::test_a_merged_range_has_no_virtual_partitions_because_its_replay_takes_all_of_it",),
    ),
    Mutation(
        "number-found-in-another-triggers-merged-batch",
        7,
        (
            Change(
                "kafka/ledger/batches.py",
                "own = [id_ for id_, name in found if name == trigger] or [id_ for id_, _ in found]",
                "own = [id_ for id_, _ in found][:1]",
            ),
        ),
        (f"{MERGES}::test_the_numbers_of_two_triggers_alternate_and_neither_gets_the_others_batch",),
    ),
    Mutation(
        "number-before-all-merged-ones-found",
        7,
        (Change("kafka/ledger/sql/batches.sql", "WHERE batches.first_id <= %(batch_id)s", "WHERE true"),),
        (f"{MERGES}::test_a_number_that_was_merged_into_no_batch_is_unknown",),
    ),
    Mutation(
        "merge-that-locks-the-trigger",
        4,
        (
            Change(
                "kafka/ledger/sql/batch_merges.sql",
                "WHERE type = 'kafka'\nORDER BY id;",
                "WHERE type = 'kafka'\nORDER BY id\nFOR SHARE;",
            ),
        ),
        (f"{MERGES}::test_a_merge_delays_no_planner_and_no_attempt_at_another_batch",),
    ),
    Mutation(
        "merged-batch-looks-empty-while-it-is-loaded",
        7,
        (
            Change(
                "kafka/ledger/batches.py",
                "    # The ranges first:",
                f"{READ_BATCH}    # The ranges first:",
            ),
            Change(
                "kafka/ledger/batches.py",
                f"{READ_BATCH}    if row is None:",
                "    if row is None:",
            ),
        ),
        (f"{MERGES}::test_a_batch_that_is_merged_while_it_is_loaded_does_not_seem_to_be_empty",),
    ),
)
