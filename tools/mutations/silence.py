"""Breaks of what protects against clients that cannot start, and against writers that fall silent."""

from mutations.mutation import Change, Mutation

SILENT, NEW_CLIENT = "integration/kafka/ingest/test_silent_writers.py", "unit/kafka/client/test_new_client.py"
WRONG = "integration/kafka/airflow/test_wrong_settings.py"

SILENCE = (
    Mutation(
        "server-never-asks-after-its-client",
        4,
        (
            Change(
                "core/postgres/session_limits.py",
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
        "wrong-settings-end-in-a-traceback",
        5,
        (
            Change(
                "kafka/client/new_client.py", "except KafkaException as error:", "except ZeroDivisionError as error:"
            ),
        ),
        (
            f"{NEW_CLIENT}::test_a_client_that_cannot_start_reports_why_and_what_to_do",
            f"{WRONG}::test_the_task_fails_with_the_whole_sentence_and_commits_nothing",
            f"{WRONG}::test_the_wait_ends_in_the_triggerer_and_the_task_fails_on_a_worker",
        ),
    ),
    Mutation(
        "secret-of-a-wrong-setting-shown",
        5,
        (Change("kafka/client/new_client.py", "if value and is_secret_setting(name):", "if False:"),),
        (f"{NEW_CLIENT}::test_no_secret_is_repeated_even_where_librdkafka_quotes_it",),
    ),
    Mutation(
        "coordinator-not-waited-for",
        5,
        (
            Change(
                "kafka/airflow/commit_offsets.py",
                "except CoordinatorMovingError as error:",
                "except ZeroDivisionError:",
            ),
        ),
        ("unit/kafka/airflow/test_commit.py::test_a_coordinator_that_comes_in_time_fails_nothing",),
    ),
    Mutation(
        "executors-need-the-workers-files",
        4,
        (Change("kafka/client/certificates.py", '            del given[f"{name}.location"]\n', ""),),
        ("unit/kafka/client/test_certificates.py::test_a_client_starts_where_none_of_the_files_is",),
    ),
)
