"""Mutations of batches on a Spark Connect server."""

from mutations.mutation import Change, Mutation

CONNECT = "integration/kafka/spark/test_connect.py"
SERVER = "unit/kafka/spark/test_connect_server.py"
CREATE, BATCHES = "integration/kafka/airflow/test_create_work_orders.py", "integration/kafka/ledger/test_batches.py"
OPERATOR, BATCHES_SQL = "kafka/airflow/create_work_orders.py", "kafka/ledger/sql/batches.sql"
CLIENT = "integration/kafka/spark/test_connect_kafka_client.py"
NEXT, MERGES = "kafka/airflow/next_batches.py", "integration/kafka/ledger/test_batch_merges.py"
MERGES_PY, MERGES_SQL = "kafka/ledger/batch_merges.py", "kafka/ledger/sql/batch_merges.sql"

RUNNING_SPARK = (
    Mutation(
        "ranges-tried-again-while-the-lost-query-may-run",
        5,
        (Change("kafka/spark/driver.py", "if is_server_lost(error):", "if False:"),),
        (f"{CONNECT}::test_a_server_that_dies_after_a_commit_loses_nothing_and_repeats_nothing",),
    ),
    Mutation(
        "lost-server-unnoticed-by-the-client-of-spark-4.0",
        5,
        (
            Change("kafka/spark/driver.py", '"RETRIES_EXCEEDED",', '"NEVER",'),
            Change("kafka/spark/driver.py", "status = StatusCode.{name}", "status = {name}"),
        ),
        ("unit/kafka/spark/test_driver.py::test_a_lost_server_is_recognized_by_what_each_client_raises",),
    ),
    Mutation(
        "workers-with-another-package-accepted",
        2,
        (Change("kafka/spark/partition_ingest.py", "if self.package != installed_package():", "if False:"),),
        (f"{CONNECT}::test_workers_with_another_package_touch_nothing",),
    ),
    Mutation(
        "passwords-cross-the-network-in-plain-text",
        0,
        (
            Change(
                "kafka/spark/connect.py", "if not self.is_loopback and not (self.use_ssl and self.token):", "if False:"
            ),
        ),
        (f"{CONNECT}::test_another_machine_needs_tls_and_a_token",),
    ),
    Mutation(
        "server-open-to-everyone",
        0,
        (Change("kafka/spark/connect_server.py", "if host != LOOPBACK and not token:", "if False:"),),
        (f"{SERVER}::test_a_server_that_others_reach_needs_a_token",),
    ),
    Mutation(
        "running-attempt-at-a-taken-batch-fenced-by-the-listener",
        4,
        (Change(BATCHES_SQL, "AND (batches.handed_over_at IS NOT NULL OR NOT", "AND (TRUE OR NOT"),),
        (f"{BATCHES}::test_a_batch_without_a_run_is_left_to_the_task_that_took_it_while_that_runs",),
    ),
    Mutation(
        "taken-batch-of-a-dead-task-never-dispatched",
        1,
        (
            Change(
                BATCHES_SQL,
                "SELECT FROM pg_locks AS locks\n    WHERE ",
                "SELECT FROM pg_locks AS locks\n    WHERE true OR ",
            ),
        ),
        (f"{BATCHES}::test_a_taker_whose_process_is_gone_takes_nothing_any_more",),
    ),
    Mutation(
        "finished-batch-without-a-run",
        5,
        (Change("kafka/airflow/plan_batch.py", "*batches.finished_without_run(database, name)", ""),),
        (f"{CREATE}::test_a_task_whose_airflow_starts_no_run_succeeds_and_the_listener_starts_the_runs",),
    ),
    Mutation(
        "cleared-run-of-a-taken-batch-skipped",
        7,
        (Change(OPERATOR, "is_own_first_try = ti.try_number == 1 and ", "is_own_first_try = "),),
        (f"{CREATE}::test_a_task_takes_the_next_batches_whose_runs_are_skipped_until_a_clear_replays_them",),
    ),
    Mutation(
        "run-by-hand-of-a-taken-batch-skipped",
        7,
        (Change(OPERATOR, " and ti.run_id == run_id(batch.id)", ""),),
        (f"{CREATE}::test_a_task_takes_the_next_batches_whose_runs_are_skipped_until_a_clear_replays_them",),
    ),
    Mutation(
        "run-of-a-finished-batch-started-again",
        5,
        (Change("kafka/airflow/ingest_runs.py", "    if not batch.unfinished:\n        return False\n", ""),),
        (
            "unit/kafka/airflow/test_ingest_runs.py::test_a_run_that_shows_a_finished_batch_is_started_once_and_never_again",
        ),
    ),
    Mutation(
        "batches-taken-for-a-paused-trigger",
        0,
        (Change(NEXT, " or self._listener.is_paused() or self._ingest.is_paused()", ""),),
        (f"{CREATE}::test_no_batch_is_taken_for_a_paused_trigger",),
    ),
    Mutation(
        "batches-taken-without-end",
        4,
        (Change(NEXT, "time.monotonic() > until or ", ""),),
        (f"{CREATE}::test_no_batch_is_taken_after_the_time_of_a_task",),
    ),
    Mutation(
        "batches-taken-that-the-listener-would-not-plan",
        0,
        (Change(NEXT, "while not self._is_due(", "while False and not self._is_due("),),
        (f"{CREATE}::test_no_batch_is_taken_that_the_listener_would_not_plan",),
    ),
    Mutation(
        "batches-of-a-trigger-taken-by-two-tasks",
        0,
        (Change(NEXT, "if not try_take(self._lock, self._taker.trigger.id):", "if False:"),),
        (f"{CREATE}::test_only_one_task_takes_the_batches_of_a_trigger",),
    ),
    Mutation(
        "task-that-never-rests",
        0,
        (Change(NEXT, "self._rest(rest_seconds(", "(lambda _: None)(rest_seconds("),),
        ("integration/kafka/airflow/test_next_batches.py::test_a_task_rests_after_a_small_batch_though_messages_wait",),
    ),
    Mutation(
        "task-that-does-not-linger",
        0,
        (Change(NEXT, "min(begun + self._definition.linger, until)", "0"),),
        (
            "integration/kafka/airflow/test_next_batches.py::test_a_task_waits_for_further_messages_as_long_as_it_lingers",
        ),
    ),
    Mutation(
        "merged-batch-of-a-task-has-another-run",
        7,
        (Change(MERGES_PY, "mark_handed_over(lock, [] if own is None else [own])", "mark_handed_over(lock, [])"),),
        (
            f"{CREATE}::test_small_batches_that_a_task_takes_become_one_with_its_own_which_a_clear_replays",
            f"{MERGES}::test_the_batches_that_a_task_took_become_one_with_its_own_which_needs_no_other_run",
        ),
    ),
    Mutation(
        "batch-of-the-listener-merged-by-a-task",
        7,
        (Change(MERGES_SQL, "coalesce(batches.taken_by = own.id, false)", "true"),),
        (f"{MERGES}::test_a_batch_that_the_listener_planned_is_not_merged_by_a_task",),
    ),
    Mutation(
        "unfinished-batch-merged-by-a-task",
        7,
        (Change(MERGES_SQL, " AND ranges.finished_at IS NOT NULL AS can_merge", " AS can_merge"),),
        (f"{MERGES}::test_an_unfinished_batch_is_not_merged_by_the_task_that_took_it",),
    ),
    Mutation(
        "other-partitions-wait-for-a-task-that-takes-batches",
        4,
        (
            Change(
                "kafka/planning/wakeup.py",
                " and min(waited_seconds, seconds_since_last_batch or 0.0) < TAKER_SECONDS",
                "",
            ),
        ),
        (
            "unit/kafka/planning/test_wakeup.py::test_free_partitions_are_left_for_a_moment_to_a_task_that_takes_batches",
        ),
    ),
    Mutation(
        "offsets-of-taken-batches-not-committed",
        0,
        (
            Change(
                "kafka/ledger/sql/positions.sql",
                " OR batches.taken_by BETWEEN coalesce(own.first_id, own.id) AND own.id",
                "",
            ),
        ),
        (
            "integration/kafka/ledger/test_positions.py::test_the_positions_of_a_batch_include_those_of_the_batches_that_its_task_took",
        ),
    ),
    Mutation(
        "consumers-of-other-settings-in-one-group",
        7,
        (Change("kafka/spark/source.py", "_FETCHING | dict(java_settings)]", "_FETCHING]"),),
        (
            "unit/kafka/spark/test_source.py::test_a_group_differs_where_settings_do_or_what_offsets_mean",
            f"{CLIENT}::test_two_batches_of_a_trigger_with_different_settings_are_read_at_the_same_time",
        ),
    ),
    Mutation(
        "passwords-on-the-servers-pages",
        0,
        (
            Change("kafka/spark/connect_server.py", '    "spark.sql.redaction.string.regex": "(?s).+",\n', ""),
            Change("kafka/spark/connect_server.py", '    "spark.redaction.string.regex": "(?s).+",\n', ""),
        ),
        (f"{CLIENT}::test_no_page_no_log_and_no_error_has_kafkas_password",),
    ),
    Mutation(
        "settings-of-a-client-in-an-error",
        0,
        (Change("kafka/client/secrets.py", "if len(secret) >= _SHORTEST_SECRET:", "if False:"),),
        ("unit/kafka/client/test_secrets.py::test_an_error_that_prints_the_settings_of_a_client_is_masked",),
    ),
)
