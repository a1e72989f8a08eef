"""Mutations of what decides which run is claimed next."""

from mutations.mutation import Change, Mutation

CLAIMABLE, KEYS = "integration/core/runs/test_claimable.py", "integration/core/runs/test_ordering_keys.py"
CLAIMING = "integration/core/runs/test_claiming.py"
SQL = "core/runs/sql/claiming.sql"

CLAIMS = (
    Mutation(
        "ordering-key-of-a-waiting-retry-taken-for-free",
        11,
        (
            Change(
                SQL,
                "CASE WHEN claimed_at IS NULL THEN not_before ELSE 'infinity' END > statement_timestamp()",
                "claimed_at IS NOT NULL",
            ),
        ),
        (
            f"{CLAIMABLE}::test_an_ordering_key_whose_first_run_waits_for_its_retry_is_not_named_until_it_is_due",
            f"{KEYS}::test_an_ordering_key_waits_for_the_retry_of_its_first_run_and_the_group_loses_the_others",
        ),
    ),
    Mutation(
        "positions-of-different-streams-compared",
        11,
        (
            Change(
                SQL,
                "ORDER BY sequenced NULLS FIRST, turn, position, id",
                "ORDER BY sequenced NULLS FIRST, position, id",
            ),
        ),
        (
            f"{KEYS}::test_a_due_retry_of_an_ordering_key_is_next_before_all_other_streams_of_the_key",
            f"{KEYS}::test_of_the_next_ones_of_several_streams_the_older_goes_first_and_each_stream_keeps_its_order",
        ),
    ),
    Mutation(
        "retry-that-looks-as-if-it-could-be-claimed",
        11,
        (
            Change(
                "core/runs/sql/finish_and_retry.sql",
                "THEN 'requeued' ELSE state::text",
                "THEN 'pending' ELSE state::text",
            ),
        ),
        (
            f"{CLAIMABLE}::test_a_work_order_between_many_that_wait_for_a_retry_is_found",
            f"{CLAIMING}::test_work_orders_that_wait_for_a_retry_neither_delay_a_claim_nor_fill_it",
        ),
    ),
)
