"""Mutations of what tells an outage of the database from an error that stays, and of what a wait depends on."""

from mutations.mutation import Change, Mutation

DATABASE, STORE = "unit/core/postgres/test_connection.py", "integration/core/worker/test_result_store.py"
GROUP, ROLES = "integration/core/worker/test_worker.py", "integration/core/worker/test_publishing_roles.py"
SHARED, WAITING = "integration/airflow/triggers/test_resources.py", "unit/airflow/triggers/test_polling.py"
SCHEMA, WORKFLOWS = "integration/core/test_schema.py", "integration/core/test_workflows.py"
KEYS, KEYS_SQL = "integration/core/admission/test_idempotency.py", "core/admission/sql/idempotency.sql"
JOBS, WEBHOOK = "integration/core/bulk/test_orphaned_jobs.py", "integration/webhook/test_app.py"

OUTAGES = (
    Mutation(
        "error-that-stays-taken-for-an-outage",
        5,
        (
            Change(
                "core/postgres/connection.py",
                "return error.sqlstate.startswith(_CONNECTION_EXCEPTIONS) or error.sqlstate in _OUTAGES",
                "return isinstance(error, psycopg.OperationalError)",
            ),
        ),
        (
            f"{DATABASE}::test_an_error_that_each_further_try_raises_again_is_no_outage",
            f"{WAITING}::test_what_waiting_cannot_heal_goes_to_a_worker_for_only_there_is_the_retry_policy_asked",
        ),
    ),
    Mutation(
        "wrong-password-waited-for",
        5,
        (Change("core/postgres/connection.py", " and not is_refused_connection(error)", ""),),
        (
            f"{DATABASE}::test_a_connection_that_was_refused_for_good_is_no_outage",
            f"{WAITING}::test_what_waiting_cannot_heal_goes_to_a_worker_for_only_there_is_the_retry_policy_asked",
        ),
    ),
    Mutation(
        "question-asked-for-ever",
        5,
        (Change("core/worker/result_store.py", " or time.monotonic() + delay > until", ""),),
        (f"{STORE}::test_an_outage_is_retried_later_and_later_until_it_lasts_too_long",),
    ),
    Mutation(
        "wait-not-ended-by-a-stop",
        5,
        (Change("core/worker/result_store.py", "self._stop.wait(delay)", "time.sleep(delay)"),),
        (f"{STORE}::test_a_stop_ends_the_wait_for_the_next_try_at_once",),
    ),
    Mutation(
        "asked-again-after-a-stop",
        5,
        (Change("core/worker/result_store.py", "if self._stop.is_set() or not", "if not"),),
        (f"{STORE}::test_a_stop_ends_the_wait_for_the_next_try_at_once",),
    ),
    Mutation(
        "ends-of-others-lost-by-a-refused-message",
        4,
        (Change("core/worker/result_store.py", "raise _NotEnqueuedError from error", "raise"),),
        (f"{ROLES}::test_where_one_of_three_runs_publishes_and_may_not_all_three_ends_are_stored",),
    ),
    Mutation(
        "bare-result-halved-without-end",
        5,
        (Change("core/worker/result_store.py", "if _is_bare(results[0]):", "if False:"),),
        (f"{GROUP}::test_a_result_that_postgres_rejects_even_without_its_output_ends_the_worker",),
    ),
    Mutation(
        "runs-behind-a-failed-one-executed-after-a-lost-answer",
        5,
        (Change("core/worker/worker.py", "        self._pool.drop(known - owned)\n", ""),),
        (f"{GROUP}::test_runs_behind_a_failed_one_wait_for_its_retry_although_the_answer_to_its_end_was_lost",),
    ),
    Mutation(
        "processes-of-a-silent-worker-not-killed-by-a-thread",
        5,
        (Change("core/worker/process_pool.py", "            process.send_kill()", "            pass"),),
        (
            f"{GROUP}::test_processes_are_killed_before_the_runs_of_a_worker_behind_a_hanging_proxy_are_those_of_another",
        ),
    ),
    Mutation(
        "suspension-of-the-machine-not-noticed",
        5,
        (Change("core/worker/heartbeat.py", "min(max(self._seconds_left, 0.0), _LOOK_SECONDS)", "self._seconds_left"),),
        (
            "unit/core/worker/test_heartbeat.py::"
            "test_after_a_suspension_of_the_machine_the_processes_are_killed_at_once",
        ),
    ),
    Mutation(
        "task-waits-without-a-limit-before-its-first-run",
        5,
        (Change("core/postgres/connection.py", "return waited < MAX_ANSWER_SECONDS", "return True"),),
        (
            "integration/airflow/operators/test_execute_runs.py::"
            "test_no_task_waits_indefinitely_for_a_database_that_does_not_answer_before_its_first_run",
        ),
    ),
    Mutation(
        "runs-owned-without-a-row",
        5,
        (Change("core/workers.py", "        raise lost(worker_id)\n\n\ndef record", "        pass\n\n\ndef record"),),
        (f"{GROUP}::test_a_worker_whose_runs_were_recovered_stops_at_its_next_step_and_counts_what_is_stored",),
    ),
    Mutation(
        "heartbeat-waits-for-the-workers-own-transaction",
        5,
        (Change("core/sql/workers.sql", "FOR KEY SHARE;", "FOR UPDATE;"),),
        (
            "integration/core/runs/test_lifecycle.py::test_a_heartbeat_does_not_wait_for_the_workers_own_transaction_"
            "and_recovery_passes_over_it",
        ),
    ),
    Mutation(
        "thread-of-a-webhook-waits-without-a-limit",
        4,
        (Change("webhook/database.py", "connection.may_wait = _within_answer_seconds", "connection.may_wait = None"),),
        (
            "integration/webhook/test_database.py::"
            "test_no_thread_waits_longer_than_its_limit_for_a_database_that_does_not_answer",
        ),
    ),
    Mutation(
        "run-that-was-taken-back-executed",
        5,
        (Change("core/worker/child.py", "                return False\n", "                return True\n"),),
        ("integration/core/worker/test_process_pool.py::test_what_is_taken_back_from_a_slow_process_is_executed_once",),
    ),
    Mutation(
        "run-that-was-taken-back-begun-with-a-later-token",
        5,
        (Change("core/worker/child.py", "is_there = self._token == token\n", "is_there = True\n"),),
        (
            "integration/core/worker/test_process_pool.py::"
            "test_a_run_that_was_taken_back_is_not_begun_with_the_token_of_a_later_one",
        ),
    ),
    Mutation(
        "program-in-a-session-of-its-own-survives",
        11,
        (Change("core/worker/child_handle.py", "            _kill_marked(self._mark)\n", "            pass\n"),),
        (
            "integration/core/worker/test_process_pool.py::"
            "test_programs_that_a_run_has_started_end_with_it_if_it_ends_by_force",
        ),
    ),
    Mutation(
        "run-of-a-dead-worker-shown-at-work",
        5,
        (Change("core/history/work_orders.py", "OWNER_GONE if self.is_owner_gone else self.state", "self.state"),),
        (
            "integration/core/history/test_runs.py::test_a_run_without_a_live_worker_is_not_shown_as_at_work",
            "integration/pages/test_pages.py::test_a_run_whose_worker_is_gone_is_not_in_progress",
        ),
    ),
    Mutation(
        "run-that-was-never-called-shown-as-begun",
        5,
        (Change("core/runs/sql/lifecycle.sql", "WHEN NOT %(begin_later)s::boolean THEN", "WHEN true THEN"),),
        (
            "integration/core/runs/test_lifecycle.py::"
            "test_a_lost_run_has_a_time_of_its_beginning_only_if_it_began_when_it_was_started",
        ),
    ),
    Mutation(
        "messages-relayed-although-their-sequence-is-behind",
        5,
        (Change("outbox/relay/relay.py", "            identities.require_ahead(connection)\n", ""),),
        (
            "integration/core/test_identities.py::"
            "test_the_relay_sends_nothing_while_newer_messages_could_get_lower_numbers",
        ),
    ),
    Mutation(
        "failed-job-waits-for-ever",
        5,
        (
            Change(
                "core/bulk/runner.py",
                '"waiting" if is_outage(error) else',
                '"waiting" if isinstance(error, Exception) else',
            ),
        ),
        (f"{JOBS}::test_a_job_that_the_database_can_never_do_fails_and_holds_up_none_behind_it",),
    ),
    Mutation(
        "caller-told-to-come-again-in-vain",
        5,
        (Change("webhook/handler.py", "except VALUE_ERRORS as error:", "except () as error:"),),
        (f"{WEBHOOK}::test_an_error_that_no_retry_heals_is_not_taken_for_an_unavailable_database",),
    ),
    Mutation(
        "slow-look-holds-up-all-waits",
        4,
        (Change("airflow/triggers/resources.py", "MAX_CONNECTIONS: Final = 4", "MAX_CONNECTIONS: Final = 1"),),
        (f"{SHARED}::test_a_statement_that_waits_holds_up_no_other_task",),
    ),
    Mutation(
        "upgrade-gives-up-while-another-is-at-work",
        5,
        (Change("core/schema.py", '    "SET LOCAL lock_timeout = 0",\n', ""),),
        (f"{SCHEMA}::test_the_second_upgrade_waits_however_long_the_first_takes",),
    ),
    Mutation(
        "statement-of-an-upgrade-cut-short",
        5,
        (Change("core/schema.py", '    "SET LOCAL statement_timeout = 0",\n', ""),),
        (f"{SCHEMA}::test_the_second_upgrade_waits_however_long_the_first_takes",),
    ),
    Mutation(
        "server-that-is-too-old-taken",
        5,
        (Change("core/schema.py", "if version < MIN_POSTGRES:", "if False:"),),
        (f"{SCHEMA}::test_a_server_that_is_too_old_is_refused_and_left_alone",),
    ),
    Mutation(
        "callable-taken-from-the-row",
        5,
        (
            Change(
                "core/workflows.py",
                "return replace(find(connection, definition.name), definition=definition)",
                "return find(connection, definition.name)",
            ),
        ),
        (f"{WORKFLOWS}::test_the_callable_is_the_files_whatever_the_row_contains_by_then",),
    ),
    Mutation(
        "window-counted-from-the-start-of-a-transaction",
        2,
        (Change(KEYS_SQL, "    clock_timestamp() + make_interval", "    now() + make_interval"),),
        (f"{KEYS}::test_a_window_counts_from_the_end_of_a_transaction_and_not_from_its_start",),
    ),
)
