"""Mutations of what decides which run is claimed next, and of what lets a function's effects happen once."""

from mutations.mutation import Change, Mutation

CLAIMABLE, KEYS = "integration/core/runs/test_claimable.py", "integration/core/runs/test_ordering_keys.py"
CLAIMING = "integration/core/runs/test_claiming.py"
SQL = "core/runs/sql/claiming.sql"
STEPS, DATABASE = "integration/core/worker/test_steps.py", "integration/core/worker/test_user_database.py"
USER_DATABASE = "core/worker/user_database.py"

RUNS = (
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
    Mutation(
        "transaction-not-asked-whether-it-was-committed",
        12,
        (
            Change(
                USER_DATABASE, "return any(result.command_status == _INSERTED for result in results)\n", "return True\n"
            ),
        ),
        (
            f"{DATABASE}::test_what_is_written_commits_with_the_result_and_a_later_attempt_gets_that",
            f"{DATABASE}::test_a_lost_commit_or_answer_to_it_writes_once",
        ),
    ),
    Mutation(
        "function-that-committed-called-again",
        12,
        (
            Change(
                "core/worker/sql/user_database.sql",
                "AND name = %(name)s\n        AND xmin = pg_current_xact_id()::xid\n",
                "AND name = %(name)s\n",
            ),
        ),
        (f"{DATABASE}::test_what_a_function_has_committed_by_itself_is_never_written_again",),
    ),
    Mutation(
        "lost-answer-to-a-commit-taken-for-a-failure",
        12,
        (Change(USER_DATABASE, "if is_broken and (self._is_committing or self._is_unknown):", "if False:"),),
        (f"{DATABASE}::test_a_lost_commit_or_answer_to_it_writes_once",),
    ),
    Mutation(
        "step-of-a-run-of-another-worker-stored",
        12,
        (Change("core/runs/sql/lifecycle.sql", "coalesce(worker_id = %(worker_id)s AND ", "coalesce("),),
        (f"{STEPS}::test_a_worker_that_does_not_own_the_run_stores_no_step_and_its_process_is_killed",),
    ),
    Mutation(
        "password-on-the-command-line",
        0,
        (
            Change(
                "core/worker/child_handle.py",
                '            "parent": os.getpid()',
                '            "url": user_database,\n            "parent": os.getpid()',
            ),
        ),
        (f"{STEPS}::test_the_password_of_the_database_is_shown_nowhere",),
    ),
    Mutation(
        "published-messages-without-a-bound",
        4,
        (
            Change(
                "core/worker/context.py",
                "if count > self._max_published_messages or self._published_bytes > self._max_published_bytes:",
                "if False:",
            ),
        ),
        (
            "integration/core/worker/test_process_pool.py::"
            "test_a_run_that_publishes_more_than_its_workflow_allows_fails_alone_and_is_not_retried",
        ),
    ),
)
