"""Mutations of what tells an outage from an error that stays, and of who waits: workers, writers, stalled batches."""

from mutations.mutation import Change, Mutation

DATABASE, STORE = "unit/core/postgres/test_connection.py", "integration/core/worker/test_result_store.py"
GROUP, ROLES = "integration/core/worker/test_worker.py", "integration/core/worker/test_publishing_roles.py"
WAITING = "unit/airflow/triggers/test_polling.py"
SILENT, NEW_CLIENT = "integration/kafka/ingest/test_silent_writers.py", "unit/kafka/client/test_new_client.py"
CREATE, WAIT = (
    "integration/kafka/airflow/test_create_work_orders.py",
    "integration/kafka/airflow/test_stalled_batch.py",
)
OPERATOR, TRIGGER = "kafka/airflow/create_work_orders.py", "kafka/airflow/stalled_batch.py"
PLAN = "kafka/airflow/plan_batch.py"
UNPLANNED = (
    "integration/kafka/airflow/test_plan_batch.py::"
    "test_while_nothing_can_be_planned_the_stall_fails_one_task_and_causes_one_alert"
)

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
        "wait-not-ended-by-a-stop",
        5,
        (Change("core/worker/result_store.py", "self._stop.wait(delay)", "time.sleep(delay)"),),
        (f"{STORE}::test_a_stop_ends_the_wait_for_the_next_try_at_once",),
    ),
    Mutation(
        "ends-of-others-lost-by-a-refused-message",
        4,
        (Change("core/worker/result_store.py", "raise _NotEnqueuedError from error", "raise"),),
        (f"{ROLES}::test_where_one_of_three_runs_publishes_and_may_not_all_three_ends_are_stored",),
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
        (Change("core/workers.py", "min(max(self._seconds_left, 0.0), _LOOK_SECONDS)", "self._seconds_left"),),
        ("unit/core/test_workers.py::test_after_a_suspension_of_the_machine_the_processes_are_killed_at_once",),
    ),
    Mutation(
        "task-waits-without-a-limit-before-its-first-run",
        5,
        (Change("core/postgres/connection.py", "return waited < MAX_ANSWER_SECONDS", "return True"),),
        (
            "integration/airflow/dags/test_workflows.py::"
            "test_no_task_waits_indefinitely_for_a_database_that_does_not_answer_before_its_first_run",
        ),
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
        "run-that-was-taken-back-executed",
        5,
        (Change("core/worker/child.py", "                return False\n", "                return True\n"),),
        ("integration/core/worker/test_process_pool.py::test_what_is_taken_back_from_a_slow_process_is_executed_once",),
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
        "messages-relayed-although-their-sequence-is-behind",
        5,
        (Change("outbox/relay/relay.py", "            schema.require_sequences_ahead(connection)\n", ""),),
        (
            "integration/core/test_schema_sequences.py::"
            "test_the_relay_sends_nothing_while_newer_messages_could_get_lower_numbers",
        ),
    ),
    Mutation(
        "server-never-asks-after-its-client",
        4,
        (
            Change(
                "core/postgres/connection.py",
                '    "tcp_keepalives_idle": "30",\n    "tcp_keepalives_interval": "10",\n'
                '    "tcp_keepalives_count": "3",\n    "tcp_user_timeout": "60000",\n',
                "",
            ),
        ),
        (
            f"{SILENT}::test_a_machine_that_vanishes_during_a_copy_frees_its_partition",
            "integration/core/postgres/test_connection.py::"
            "test_the_server_finds_out_within_a_minute_that_a_clients_machine_is_gone",
        ),
    ),
    Mutation(
        "stopped-writer-never-ended",
        4,
        (Change("kafka/ledger/positions.py", "    end_silent_writers(connection)\n    with", "    with"),),
        (f"{SILENT}::test_the_next_attempt_ends_one_that_has_stopped_during_a_copy_once_a_statements_time_is_over",),
    ),
    Mutation(
        "every-copy-taken-for-a-silent-writers",
        4,
        (
            Change(
                "kafka/ledger/sql/positions.sql",
                "    AND EXISTS (\n        SELECT FROM pg_locks",
                "    AND NOT EXISTS (\n        SELECT FROM pg_locks",
            ),
        ),
        (f"{SILENT}::test_a_copy_that_holds_no_ledger_row_is_left_alone",),
    ),
    Mutation(
        "copy-of-a-task-fails-while-the-other-works",
        4,
        (Change("kafka/ledger/positions.py", "            end_silent_writers(connection)\n", "            raise\n"),),
        (f"{SILENT}::test_a_copy_of_an_attempt_waits_for_the_other_however_long_and_fails_neither",),
    ),
    Mutation(
        "secret-of-a-wrong-setting-shown",
        5,
        (Change("kafka/client/new_client.py", "if value and is_secret_setting(name):", "if False:"),),
        (f"{NEW_CLIENT}::test_no_secret_is_repeated_even_where_librdkafka_quotes_it",),
    ),
    Mutation(
        "long-stall-keeps-its-tries",
        6,
        (Change(OPERATOR, "if not is_long_stall(self, ti):", "if True:"),),
        (f"{CREATE}::test_a_stall_that_lasts_is_deferred_with_its_error_and_continues_after_a_decision",),
    ),
    Mutation(
        "stall-of-a-free-partition-fails-no-task",
        5,
        (Change(PLAN, "if plan.stalled:", "if False:"),),
        (UNPLANNED,),
    ),
    Mutation(
        "partition-without-a-leader-taken-for-an-outage",
        5,
        (Change("kafka/client/requests.py", "_UNKNOWN_TOPIC | LEADER_UNAVAILABLE", "_UNKNOWN_TOPIC"),),
        (UNPLANNED,),
    ),
    Mutation(
        "stall-of-a-free-partition-not-alerted",
        6,
        (Change(PLAN, "claim_alerts(self.definition, database, self.log)", "[]"),),
        (UNPLANNED,),
    ),
    Mutation(
        "stall-of-a-free-partition-not-noticed-by-the-listener",
        6,
        (Change("kafka/airflow/triggers.py", "found = replace(found, stalls=stalls)", "del stalls"),),
        (
            "integration/kafka/airflow/test_triggers.py::"
            "test_it_fires_when_its_only_partition_loses_its_leader_and_when_the_alert_of_that_is_due",
        ),
    ),
    Mutation(
        "retry-by-the-file-of-the-last-planned-batch",
        6,
        (Change("kafka/ingest/ingest_attempt.py", "planner.register(self.database, definition)", "pass"),),
        (f"{CREATE}::test_a_retry_uses_the_current_file_although_the_stalled_trigger_plans_no_batch",),
    ),
    Mutation(
        "decision-not-noticed-while-deferred",
        10,
        (Change(TRIGGER, "if before is not None and before != state:", "if False:"),),
        (
            f"{WAIT}::test_a_decision_wakes_a_worker_before_the_next_try_is_due",
            f"{WAIT}::test_a_changed_definition_of_the_trigger_wakes_a_worker",
        ),
    ),
)
