"""Mutations of batches on a Spark cluster, whose machines have neither the package nor the secrets."""

from mutations.mutation import Change, Mutation

SUBMISSION = "unit/kafka/airflow/test_spark_submission.py"
CREATE = "integration/kafka/airflow/test_create_work_orders.py"
SUBMIT, PACKAGE = "kafka/airflow/spark_submission.py", "kafka/spark/installed_package.py"

CLUSTERS = (
    Mutation(
        "package-stays-where-the-task-runs",
        5,
        (Change(SUBMIT, "if not (is_one_process(", "if not (True or is_one_process("),),
        (f"{SUBMISSION}::test_executors_elsewhere_get_the_package_in_client_mode_and_the_driver_its_environment",),
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
        "driver-elsewhere-without-its-secrets",
        5,
        (Change(SUBMIT, "    if any(not given & ", "    if not any(not given & "),),
        (f"{SUBMISSION}::test_a_driver_elsewhere_needs_a_reference_to_each_secret",),
    ),
    Mutation(
        "driver-elsewhere-without-the-registry-that-it-needs",
        5,
        (Change(SUBMIT, "tuple(connections.to_environment())", "SECRET_VARIABLES[:2]"),),
        (f"{SUBMISSION}::test_a_driver_elsewhere_needs_a_reference_to_the_registry_if_its_trigger_decodes_by_one",),
    ),
    Mutation(
        "certificate-of-a-mounted-secret-stays-with-the-driver",
        5,
        (Change("kafka/spark/driver.py", "return with_texts(with_token(", "return (with_token("),),
        ("unit/kafka/spark/test_driver.py::test_executors_get_the_text_of_a_certificate_that_a_mounted_secret_names",),
    ),
    Mutation(
        "password-in-a-url-of-a-spark-setting",
        0,
        (Change("kafka/definition/spark.py", " or has_login(str(setting)):", ":"),),
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
        "driver-by-the-python-of-the-path",
        5,
        (
            Change(
                "kafka/spark/programs.py",
                "DRIVER_PYTHON_VARIABLE: sys.executable}",
                "DRIVER_PYTHON_VARIABLE: 'python3'}",
            ),
        ),
        (f"{SUBMISSION}::test_the_driver_is_a_process_of_this_python_unless_the_user_names_another",),
    ),
    Mutation(
        "end-of-a-submission-not-recorded",
        5,
        (
            Change(
                "kafka/ingest/ingest_attempt.py",
                "stalls.record_unexplained(self.database, self.ended, self.epoch, failure)",
                "stalls.record_unexplained(self.database, self.ended, self.epoch)",
            ),
        ),
        (
            "integration/kafka/airflow/test_stall_notifications.py"
            "::test_an_application_that_dies_without_a_word_is_a_stall_with_the_end_of_its_submission",
        ),
    ),
)
