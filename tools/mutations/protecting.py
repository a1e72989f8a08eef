"""Mutations of what keeps secrets, erases data, and names who decided."""

from mutations.mutation import Change, Mutation

NETWORK, SOCKETS = "unit/kafka/spark/test_network.py", "integration/kafka/spark/test_network.py"
RETENTION = "integration/core/maintenance/test_retention.py"
CHILD_TEXTS, POOL = "unit/core/worker/test_captured_text.py", "integration/core/worker/test_process_pool.py"
API = "unit/monitoring/test_api.py"

SECRETS_AND_AUDIT = (
    Mutation(
        "error-cut-before-it-is-masked",
        0,
        (
            Change(
                "core/worker/run_results.py",
                "        text = self.mask(error)\n",
                "        text = self.mask(error[:MAX_ERROR_CHARACTERS])\n",
            ),
        ),
        (f"{POOL}::test_no_part_of_a_known_secret_is_in_an_error_or_a_log_wherever_they_are_cut",),
    ),
    Mutation(
        "part-of-a-secret-next-to-a-gap",
        0,
        (Change("core/worker/run_results.py", "end[margin if beginnings else 0 :]", "end"),),
        (
            f"{CHILD_TEXTS}::test_a_log_that_was_emptied_at_any_byte_shows_no_part_of_a_secret",
            f"{CHILD_TEXTS}::test_a_log_that_is_read_in_two_parts_shows_no_part_of_a_secret_next_to_the_gap",
        ),
    ),
    Mutation(
        "forked-copy-reports-a-result",
        5,
        (Change("core/worker/child.py", "if os.getpid() != self._pid or not all", "if not all"),),
        (f"{POOL}::test_a_forked_copy_of_a_process_reports_nothing",),
    ),
    Mutation(
        "state-of-the-process-not-restored",
        4,
        (Change("core/worker/child.py", "if found := self._state.restore():", "if found := list[str]():"),),
        (f"{POOL}::test_what_a_run_leaves_behind_in_its_process_does_not_reach_the_next",),
    ),
    Mutation(
        "local-spark-on-every-address",
        0,
        (
            Change(
                "kafka/spark/network.py",
                '    "spark.driver.bindAddress": LOOPBACK,\n    "spark.driver.host": LOOPBACK,\n',
                "",
            ),
        ),
        (
            f"{SOCKETS}::test_a_local_application_listens_on_loopback_alone_and_loads_its_classes_from_the_archive",
            f"{NETWORK}::test_an_application_of_one_process_listens_on_loopback_and_asks_for_a_secret",
        ),
    ),
    Mutation(
        "cluster-without-a-secret",
        0,
        (
            Change(
                "kafka/spark/network.py", "if is_authenticated and not makes_its_own", "if False and not makes_its_own"
            ),
        ),
        (f"{NETWORK}::test_a_cluster_without_the_secret_that_it_needs_is_refused",),
    ),
    Mutation(
        "errors-survive-wiping",
        0,
        (
            Change(
                "core/maintenance/sql/retention.sql",
                "UPDATE workorders.runs SET error = NULL",
                "UPDATE workorders.runs SET error = error",
            ),
        ),
        (f"{RETENTION}::test_wiping_takes_the_text_of_an_error_and_leaves_its_type",),
    ),
    Mutation(
        "names-of-sequences-survive",
        0,
        (
            Change(
                "core/maintenance/sql/retention.sql",
                "UPDATE workorders.sequences SET name = ''",
                "UPDATE workorders.sequences SET name = name",
            ),
        ),
        (f"{RETENTION}::test_the_name_of_an_idle_sequence_is_erased_and_its_mark_stays",),
    ),
    Mutation(
        "headers-with-secrets-kept",
        0,
        (Change("kafka/ingest/record_mapping.py", "return not is_secret_header(text)", "return True"),),
        ("unit/kafka/ingest/test_record_mapping.py::test_a_header_that_carries_a_secret_is_kept_only_if_it_is_named",),
    ),
    Mutation(
        "account-taken-from-the-environment",
        10,
        (Change("cli/options.py", "pwd.getpwuid(number).pw_name", 'os.environ["USER"]'),),
        ("unit/cli/test_options.py::test_the_account_is_the_operating_systems_in_any_environment",),
    ),
    Mutation(
        "metrics-token-not-compared",
        0,
        (
            Change(
                "monitoring/api.py",
                "is_right = hmac.compare_digest(value.strip().encode(), expected.encode())",
                "is_right = True",
            ),
        ),
        (f"{API}::test_every_other_caller_is_refused",),
    ),
    Mutation(
        "lineage-key-on-the-command-line",
        0,
        (Change("kafka/airflow/spark_submission.py", "if name.startswith(_LINEAGE) and", "if False and"),),
        (
            "unit/kafka/airflow/test_spark_submission.py::"
            "test_the_properties_of_open_lineage_reach_spark_submit_without_their_secrets",
        ),
    ),
    Mutation(
        "asset-event-for-a-replay",
        7,
        (Change("kafka/airflow/create_work_orders.py", "if not attempt.batch.unfinished:", "if False:"),),
        (
            "integration/kafka/airflow/test_create_work_orders.py::"
            "test_an_attempt_that_creates_work_orders_emits_one_asset_event_and_a_replay_none",
        ),
    ),
)
