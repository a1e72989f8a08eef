"""Mutations of what machines are told: metrics, health, lineage, and traces."""

from mutations.mutation import Change, Mutation

API, SNAPSHOT = "unit/monitoring/test_api.py", "integration/monitoring/test_snapshot.py"

MONITORING = (
    Mutation(
        "metrics-token-not-compared",
        0,
        (
            Change(
                "monitoring/api.py",
                "if not hmac.compare_digest(value.strip().encode(), expected.encode()):",
                "if False:",
            ),
        ),
        (f"{API}::test_every_other_caller_is_refused",),
    ),
    Mutation(
        "metrics-open-without-a-token",
        0,
        (
            Change(
                "monitoring/api.py",
                "        if not expected:\n",
                "        if expected is None:\n            return\n        if False:\n",
            ),
        ),
        (f"{API}::test_without_a_token_nobody_reads_the_metrics",),
    ),
    Mutation(
        "health-details-for-everybody",
        0,
        (
            Change(
                "monitoring/api.py",
                "with suppress(NotAnsweredError):\n            await require_token(authorization)\n",
                "if True:\n",
            ),
        ),
        (f"{API}::test_everybody_reads_whether_something_is_wrong_and_only_the_token_tells_what",),
    ),
    Mutation(
        "token-looked-up-for-strangers",
        0,
        (Change("monitoring/api.py", 'if scheme.lower() != "bearer" or not value.strip():', "if False:"),),
        (f"{API}::test_strangers_cause_no_look_up_of_the_token_and_one_read_of_the_database",),
    ),
    Mutation(
        "lag-frozen-while-nobody-looks",
        5,
        (
            Change(
                "kafka/ledger/sql/metrics.sql",
                "WHERE newest.observed_at > now() - interval '2 minutes';",
                "WHERE true;",
            ),
        ),
        (f"{SNAPSHOT}::test_a_lag_that_nobody_looks_at_has_no_value_and_the_look_has_an_age",),
    ),
    Mutation(
        "virtual-partitions-counted-again-and-again",
        0,
        (
            Change(
                "kafka/ledger/sql/virtual_partitions.sql",
                "ledger.created + CASE WHEN prefix.end_offset = ranges.end_offset THEN prefix.created ELSE 0 END",
                "ledger.created + prefix.created",
            ),
        ),
        (f"{SNAPSHOT}::test_virtual_partitions_count_once_as_well",),
    ),
    Mutation(
        "listener-records-no-look",
        5,
        (
            Change(
                "kafka/airflow/triggers.py",
                "await self._database.fetch(*lag_samples.record_statement(self._definition.name, ends))",
                "pass",
            ),
        ),
        ("integration/kafka/airflow/test_triggers.py::test_it_records_how_far_the_log_goes_when_it_begins_to_look",),
    ),
    Mutation(
        "check-of-the-status-always-passes",
        5,
        (Change("cli/status.py", "    if wrong:\n", "    if False:\n"),),
        ("integration/cli/test_commands.py::test_a_check_of_the_status_exits_with_1_and_tells_what_is_wrong",),
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
        "lineage-properties-lost",
        5,
        (
            Change(
                "kafka/airflow/spark_submission.py",
                "        self._hook = None\n",
                "        self._hook = make_hook(self)\n",
            ),
        ),
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
    Mutation(
        "run-begins-a-trace-of-its-own",
        5,
        (Change("core/worker/run_spans.py", "tracing.sent_context(headers)", "tracing.sent_context({})"),),
        (
            "integration/core/worker/test_run_spans.py::"
            "test_a_run_is_a_span_of_the_senders_trace_and_what_it_publishes_continues_it",
        ),
    ),
    Mutation(
        "send-begins-a-trace-of-its-own",
        5,
        (Change("outbox/relay/send_spans.py", "tracing.sent_context(headers)", "tracing.sent_context({})"),),
        (
            "unit/outbox/relay/test_send_spans.py::test_a_message_gets_a_span_in_the_trace_that_it_carries",
            "integration/core/test_tracing.py::"
            "test_one_trace_leads_from_the_producers_span_over_its_batch_and_its_run_to_what_is_published",
        ),
    ),
)
