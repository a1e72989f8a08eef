"""Mutations of virtual partitions: the locks, the prefix, and the finish of a range."""

from mutations.mutation import Change, Mutation

INGEST = "integration/kafka/ingest/test_virtual_partitions.py"
LEDGER = "integration/kafka/ledger/test_virtual_partitions.py"
WORKER = "unit/kafka/spark/test_partition_ingest.py"
CUT = "unit/kafka/planning/test_range_planning.py"
SQL, TRANSACTION = "kafka/ledger/sql/virtual_partitions.sql", "kafka/ingest/transaction.py"

VIRTUAL_PARTITIONS = (
    Mutation(
        "ledger-moves-over-unfinished-virtual-partitions",
        3,
        (
            Change(
                SQL,
                "coalesce(min(start_offset) FILTER (WHERE virtual.finished_at IS NULL), max(end_offset))",
                "max(end_offset) FILTER (WHERE virtual.finished_at IS NOT NULL)",
            ),
        ),
        (
            f"{LEDGER}::test_the_ledger_is_at_the_first_gap_in_every_order_of_finishing",
            f"{INGEST}::test_the_ledger_never_passes_a_virtual_partition_that_is_not_stored",
            f"{INGEST}::test_a_virtual_partition_that_fails_stalls_only_itself_and_the_ledger_stops_before_it",
        ),
    ),
    Mutation(
        "new-epoch-does-not-wait-for-virtual-partitions",
        3,
        (
            Change(
                "kafka/ledger/positions.py",
                'connection.execute(_QUERIES["lock_batch"], {"batch_id": batch_id}).fetchall()\n        epoch',
                "[]\n        epoch",
            ),
        ),
        (f"{LEDGER}::test_a_new_attempt_waits_for_a_virtual_partition_at_work",),
    ),
    Mutation(
        "virtual-partitions-hold-no-lock-on-the-ledger",
        3,
        (Change("kafka/ledger/sql/positions.sql", "FOR KEY SHARE;", ";"),),
        (
            f"{LEDGER}::test_a_virtual_partition_excludes_a_new_epoch_and_neither_others_nor_the_ledgers_move",
            f"{INGEST}::test_an_older_attempt_that_waits_for_the_new_epoch_sees_it",
        ),
    ),
    Mutation(
        "finished-virtual-partition-written-again",
        2,
        (Change(TRANSACTION, "        if created is None:\n", "        if True:\n"),),
        (f"{INGEST}::test_a_second_copy_of_one_attempt_reads_nothing_and_reports_what_the_first_has_stored",),
    ),
    Mutation(
        "finished-virtual-partitions-read-by-the-next-attempt",
        2,
        (
            Change(
                "kafka/ledger/batches.py",
                "for virtual in self.virtual_partitions if not virtual.finished)",
                "for virtual in self.virtual_partitions)",
            ),
        ),
        (f"{INGEST}::test_a_crash_between_a_commit_and_the_ledgers_move_costs_no_message_a_second_write",),
    ),
    Mutation(
        "ledger-left-behind-after-a-crash",
        3,
        (
            Change(
                "kafka/ledger/positions.py",
                "        virtual_partitions.advance_all(connection, batch_id, epoch)\n",
                "",
            ),
        ),
        (
            f"{LEDGER}::test_the_ledger_catches_up_whichever_moves_a_crash_has_prevented",
            f"{INGEST}::test_a_crash_between_a_commit_and_the_ledgers_move_costs_no_message_a_second_write",
        ),
    ),
    Mutation(
        "messages-of-two-partitions-taken-for-one",
        1,
        (Change("kafka/spark/partition_ingest.py", "            _require_one_partition(attempt, batch)\n", ""),),
        (f"{WORKER}::test_messages_of_two_partitions_in_one_task_are_an_error_although_their_offsets_ascend",),
    ),
    Mutation(
        "ordered-workflow-takes-virtual-partitions",
        0,
        (
            Change("kafka/planning/range_planning.py", "workflow.definition.ordering_key is not None", "False"),
            Change("kafka/planning/range_planning.py", "workflow.concurrency == 1", "False"),
        ),
        (f"{CUT}::test_a_workflow_that_needs_order_refuses_them",),
    ),
)
