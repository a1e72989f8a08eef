"""Mutations of batches on a Spark Connect server, and on a cluster that has neither the package nor the secrets."""

from mutations.mutation import Change, Mutation

CONNECT = "integration/kafka/spark/test_connect.py"
SERVER = "unit/kafka/spark/test_connect_server.py"
CLIENT = "integration/kafka/spark/test_connect_kafka_client.py"
SUBMISSION = "unit/kafka/airflow/test_spark_submission.py"
CREATE = "integration/kafka/airflow/test_create_work_orders.py"
SUBMIT, PACKAGE = "kafka/airflow/spark_submission.py", "kafka/spark/installed_package.py"

SPARK_ELSEWHERE = (
    Mutation(
        "ranges-tried-again-while-the-lost-query-may-run",
        5,
        (Change("kafka/spark/driver.py", "if is_server_lost(error):", "if False:"),),
        (f"{CONNECT}::test_a_server_that_dies_after_a_commit_loses_nothing_and_repeats_nothing",),
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
        "setting-opens-the-spark-server",
        0,
        (Change("kafka/spark/connect_server.py", "if name.startswith(_DOORS):", "if False:"),),
        (f"{SERVER}::test_no_setting_opens_the_server",),
    ),
    Mutation(
        "cache-of-others-executed",
        0,
        (Change("core/private_files.py", "path.stat().st_mode & _WRITABLE_BY_OTHERS", "False"),),
        ("unit/kafka/spark/test_cache.py::test_a_folder_that_others_may_write_to_is_refused",),
    ),
    Mutation(
        "unknown-jar-kept",
        0,
        (Change("kafka/spark/kafka_source.py", "        if is_checked:\n", "        if False:\n"),),
        ("unit/kafka/spark/test_kafka_source.py::test_no_jar_is_kept_if_one_is_another_than_the_package_knows",),
    ),
    Mutation(
        "login-of-a-registry-in-plain-text",
        0,
        (Change("kafka/formats/registry.py", 'found.scheme == "http" and', "False and"),),
        ("unit/kafka/formats/test_registry.py::test_no_login_crosses_the_network_in_plain_text",),
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
        "half-upgraded-package-travels",
        2,
        (Change(PACKAGE, "if _digest_of(copy) != digest:", "if False:"),),
        ("unit/kafka/spark/test_installed_package.py::test_files_that_change_while_they_are_packed_make_no_archive",),
    ),
    Mutation(
        "secret-of-a-driver-elsewhere-by-value",
        0,
        (Change(SUBMIT, "    if by_value:", "    if False:"),),
        (f"{SUBMISSION}::test_a_driver_elsewhere_gets_no_secret_by_value",),
    ),
    Mutation(
        "password-in-a-url-of-a-spark-setting",
        0,
        (Change("kafka/definition/trigger.py", " or has_login(str(setting)):", ":"),),
        ("unit/kafka/definition/test_trigger.py::test_spark_settings_that_leak_or_break_the_promises_are_refused",),
    ),
    Mutation(
        "end-of-an-application-believed-without-the-ledger",
        5,
        (
            Change(
                "kafka/ingest/ingest_attempt.py",
                "errors = stalls.errors_of(self.ended, failure)",
                "errors = stalls.errors_of(self.ended, failure) if failure else []",
            ),
        ),
        (f"{CREATE}::test_an_application_that_ends_well_and_ingested_nothing_is_a_stall",),
    ),
    Mutation(
        "spark-server-without-a-token",
        0,
        (Change("kafka/spark/connect_server.py", "token = given or secrets.token_urlsafe(32)", 'token = given or ""'),),
        (f"{SERVER}::test_the_server_makes_a_token_if_none_is_given",),
    ),
)
