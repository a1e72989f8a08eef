"""What topics contain: filters."""

from mutations.mutation import Change, Mutation

FILTER, COLUMNS = "integration/kafka/ingest/test_filter.py", "unit/kafka/ingest/test_record_columns.py"

CONTENTS = (
    Mutation(
        "replay-with-the-filter-of-now",
        7,
        (
            Change(
                "kafka/ledger/sql/batches.sql",
                "triggers.definition || jsonb_build_object('filter', batches.filter),",
                "triggers.definition,",
            ),
        ),
        (f"{FILTER}::test_a_batch_keeps_its_filter_for_a_late_try_and_for_a_replay",),
    ),
    Mutation(
        "filtered-records-not-seen-by-the-check-of-order",
        1,
        (
            Change(
                "kafka/ingest/record_columns.py",
                "return self.offsets if self.seen is None else self.seen",
                "return self.offsets",
            ),
        ),
        (f"{COLUMNS}::test_blocks_of_few_taken_records_stand_for_all_that_were_read",),
    ),
    Mutation(
        "unread-end-taken-for-filtered",
        1,
        (Change("kafka/ingest/record_columns.py", "    if done < len(offsets):", "    if False:"),),
        (f"{COLUMNS}::test_blocks_of_few_taken_records_stand_for_all_that_were_read",),
    ),
    Mutation(
        "batches-of-two-filters-merged",
        7,
        (Change("kafka/ledger/batch_merges.py", "has_filter = batch.filter == filter_", "has_filter = True"),),
        ("unit/kafka/ledger/test_batch_merges.py::test_batches_of_several_filters_stay_apart",),
    ),
)
