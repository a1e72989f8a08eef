"""Mutations of what lets a function's effects happen once."""

from mutations.mutation import Change, Mutation

STEPS, DATABASE = "integration/core/worker/test_steps.py", "integration/core/worker/test_user_database.py"
CHILD, USER_DATABASE = "core/worker/child.py", "core/worker/user_database.py"

STEPS_ONCE = (
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
        (Change("core/runs/sql/steps.sql", "worker_id = %(worker_id)s AND ", ""),),
        (f"{STEPS}::test_a_worker_that_does_not_own_the_run_stores_no_step_and_its_process_is_killed",),
    ),
    Mutation(
        "step-of-a-worker-without-its-row-stored",
        12,
        (
            Change("core/runs/sql/steps.sql", "EXISTS (SELECT FROM owner) AND ", ""),
            Change("core/runs/sql/steps.sql", "worker_id = %(worker_id)s AND claimed_at", "claimed_at"),
            Change("core/runs/sql/steps.sql", "AND finished_at IS NULL", "AND (finished_at IS NULL OR true)"),
            Change("core/runs/steps.py", "        raise workers.lost(worker_id)\n", "        return frozenset()\n"),
        ),
        (f"{STEPS}::test_a_worker_that_does_not_own_the_run_stores_no_step_and_its_process_is_killed",),
    ),
    Mutation(
        "step-not-waited-for",
        12,
        (
            Change(
                CHILD,
                "            error = self._receive_answer([STORED, run_id, name])\n",
                "            error = None\n",
            ),
        ),
        (f"{STEPS}::test_a_result_that_only_postgres_refuses_fails_its_run_alone",),
    ),
    Mutation(
        "steps-of-earlier-attempts-not-given",
        12,
        (Change("core/worker/child_handle.py", "if run.stored:", "if False:"),),
        (f"{STEPS}::test_a_later_attempt_gets_what_an_earlier_one_has_stored",),
    ),
    Mutation(
        "retry-in-another-generation",
        12,
        (
            Change(
                "core/runs/sql/finish_and_retry.sql", "attempt + 1, generation, retry + 1", "attempt + 1, 1, retry + 1"
            ),
        ),
        (f"{STEPS}::test_a_retry_keeps_the_generation",),
    ),
    Mutation(
        "message-published-within-a-step",
        12,
        (Change("core/worker/context.py", "        require_outside_steps()\n", ""),),
        (
            "unit/core/worker/test_steps.py::test_the_function_of_a_step_publishes_nothing_because_a_later_attempt_would_not",
        ),
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
)
