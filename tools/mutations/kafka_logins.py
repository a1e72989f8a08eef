"""Mutations of how clients log in to Kafka, and of what they report if they may not."""

from mutations.mutation import Change, Mutation

CLIENT, RIGHTS = "unit/kafka/client", "integration/kafka/client/test_rights.py"
LOGINS = "integration/kafka/client/test_logins.py"

KAFKA_LOGINS = (
    Mutation(
        "key-left-as-java-cannot-read-it",
        4,
        (
            Change(
                "kafka/client/certificates.py",
                "        return _as_pem(load_pem_private_key(text, secret))\n",
                "        load_pem_private_key(text, secret)\n        return text.decode()\n",
            ),
        ),
        (f"{CLIENT}/test_certificates.py::test_a_key_becomes_pkcs8_without_a_password",),
    ),
    Mutation(
        "private-authority-kept-from-java",
        4,
        (Change("kafka/client/java_settings.py", 'if "ssl.ca.pem" in given:', "if False:"),),
        (f"{LOGINS}::test_every_client_logs_in_with_a_password_where_a_private_authority_is_given_as_text",),
    ),
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
                "kafka/client/new_client.py",
                "error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED else message",
                "False else message",
            ),
        ),
        (f"{RIGHTS}::test_the_rights_of_the_page_are_enough",),
    ),
)
