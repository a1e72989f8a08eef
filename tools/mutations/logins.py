"""Mutations of how clients log in to Kafka and to Postgres, and of what they report if they may not."""

from mutations.mutation import Change, Mutation

CLIENT, RIGHTS = "unit/kafka/client", "integration/kafka/client/test_rights.py"
LIMITS = "integration/core/postgres/test_session_limits.py"

LOGINS = (
    Mutation(
        "refused-login-taken-for-silence",
        5,
        (Change("kafka/client/broker_errors.py", "            self.refusal = error\n", "            pass\n"),),
        ("integration/kafka/client/test_admin.py::test_a_wrong_password_is_a_refusal_and_no_broker_that_is_away",),
    ),
    Mutation(
        "key-shown-in-an-error",
        0,
        (Change("kafka/client/secrets.py", "in (secret, jaas_quoted(secret), one_line(secret))", "in (secret,)"),),
        (f"{CLIENT}/test_secrets.py::test_keys_and_logins_are_masked_in_every_form_in_which_a_client_gets_them",),
    ),
    Mutation(
        "connection-chooses-any-function",
        0,
        (Change("kafka/airflow/connections.py", "        _require_allowed(connection_id, extra[CALLBACK])\n", ""),),
        (
            "unit/kafka/airflow/test_connections.py::"
            "test_a_function_that_airflow_does_not_allow_is_refused_by_us_and_by_airflows_hook",
        ),
    ),
    Mutation(
        "right-to-read-not-checked",
        5,
        (Change("kafka/ingest/log_checks.py", "places, to_read=True)", "places)"),),
        (f"{RIGHTS}::test_a_topic_that_may_not_be_read_stalls_its_ranges_before_spark_starts",),
    ),
    Mutation(
        "reader-needs-a-right-to-its-group",
        5,
        (
            Change(
                "kafka/client/range_consumer.py", "code() == KafkaError.GROUP_AUTHORIZATION_FAILED:", "code() == -1:"
            ),
        ),
        (f"{RIGHTS}::test_the_rights_of_the_page_are_enough",),
    ),
    Mutation(
        "session-without-limits-used",
        4,
        (Change("core/postgres/connection.py", "    if not missing:\n", "    if True:\n"),),
        (f"{LIMITS}::test_without_limits_on_the_role_no_session_is_used_and_the_error_has_what_to_run",),
    ),
)
