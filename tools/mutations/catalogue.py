"""Every mutation. Each names the fastest tests that show the break; slower ones that would show it too are not run."""

from mutations.admitting import ADMISSION
from mutations.contents import CONTENTS
from mutations.growth import GROWING_BATCHES
from mutations.hostile import HOSTILE_SCHEMAS, HOSTILE_VALUES
from mutations.keeping import DELETED_IS_NOT_NEW
from mutations.logins import LOGINS
from mutations.mutation import CONTRACTS, Change, Mutation
from mutations.neighbors import ISOLATION
from mutations.outages import OUTAGES
from mutations.outbox import OUTBOX
from mutations.pages import PAGES_OF_AIRFLOW
from mutations.protecting import SECRETS_AND_AUDIT
from mutations.runs import RUNS
from mutations.spark import SPARK_ELSEWHERE
from mutations.starting import STARTING
from mutations.virtual_partitions import VIRTUAL_PARTITIONS
from mutations.webhooks import WEBHOOKS

INGEST = "integration/kafka/ingest/test_transaction.py"
LEDGER, BATCHES = "integration/kafka/ledger/test_positions.py", "integration/kafka/ledger/test_batches.py"
RANGE_END, SPARK = "integration/kafka/ingest/test_log_checks.py", "integration/kafka/spark/test_driver.py"
ODD, AMBIGUOUS = "integration/kafka/ingest/test_odd_messages.py", "integration/kafka/spark/test_ambiguous_commit.py"
SINGLE = "integration/core/creation/test_create_one.py"
CREATE_FOR, PLANNER = "integration/core/creation/test_create_for.py", "integration/kafka/planning/test_planner.py"
STALLS = "integration/kafka/ledger/test_stalls.py"
CHECKS, PLANNING = "unit/kafka/ingest/test_log_checks.py", "unit/kafka/planning/test_range_planning.py"

LEDGER_SQL = "kafka/ledger/sql/positions.sql"
MOVE_SQL = "kafka/ledger/sql/virtual_partitions.sql"
EPOCH_UNDER_THE_LOCK = Change("kafka/ingest/transaction.py", "if locked.epoch != attempt.epoch:", "if False:")
PLACE_UNDER_THE_LOCK = Change(
    "kafka/ingest/transaction.py",
    "if not range_.planned.start <= locked.next_offset <= range_.start:",
    "if False:",
)

NO_LOSS = (
    Mutation(
        "end-of-range-not-proved",
        1,
        (Change("kafka/ingest/transaction.py", "if watch.next_offset < attempt.range.end:", "if False:"),),
        (
            f"{INGEST}::test_nothing_is_committed_when_the_end_cannot_be_proved",
            f"{INGEST}::test_a_range_that_ends_early_is_proved_from_behind_its_last_message",
            f"{INGEST}::test_a_replay_that_ends_early_is_proved_as_well",
        ),
    ),
    Mutation(
        "end-of-a-cut-log-taken-for-the-end",
        1,
        (Change("kafka/client/range_consumer.py", "if offset is None or offset < range_.end:", "if False:"),),
        (
            f"{RANGE_END}::test_the_end_of_a_log_that_was_cut_inside_the_range_proves_nothing",
            f"{RANGE_END}::test_an_open_transaction_inside_the_range_proves_nothing",
        ),
    ),
    Mutation(
        "messages-outside-the-range-taken",
        1,
        (
            Change(
                "kafka/ingest/transaction.py",
                "if position is None or not next_offset <= position < end:",
                "if position is None:",
            ),
        ),
        (f"{INGEST}::test_a_message_that_is_not_the_ranges_next_one_is_refused",),
    ),
    Mutation(
        "error-of-the-source-taken-for-its-end",
        1,
        (Change("core/creation/work_orders.py", "if self._failure is not None:", "if False:"),),
        (
            f"{CREATE_FOR}::test_an_error_of_the_source_is_raised_and_not_taken_for_one_of_the_values_that_are_written_meanwhile",
        ),
    ),
    Mutation(
        "timestamp-stops-a-partition",
        1,
        (
            Change(
                "kafka/spark/driver.py", "and any(text in str(error) for text in _UNREADABLE_TIMESTAMP)", "and False"
            ),
        ),
        (f"{ODD}::test_a_timestamp_that_spark_cannot_hold_stops_nothing",),
    ),
    Mutation(
        "value-refused-by-postgres-stops-a-partition",
        1,
        (
            Change(
                "core/creation/work_orders.py",
                "        except VALUE_ERRORS as error:",
                "        except ZeroDivisionError as error:",
            ),
        ),
        (f"{CREATE_FOR}::test_a_value_that_postgres_refuses_is_rejected_and_its_neighbours_are_created",),
    ),
    Mutation(
        "new-partition-begins-by-policy",
        1,
        (
            Change(
                "kafka/planning/planner.py",
                "known_topics = {partition.topic for partition in known}",
                "known_topics: set[str] = set()",
            ),
        ),
        (f"{PLANNER}::test_a_new_partition_of_a_known_topic_begins_at_its_first_offset_whatever_the_policy",),
    ),
)

NO_DUPLICATES = (
    Mutation(
        "deleted-event-taken-for-new",
        2,
        (
            Change(
                "core/creation/create_one.py",
                "    if holder is not None:\n        duplicates.ignore(",
                "    if holder is not None and _find(connection, holder).id is not None:\n        duplicates.ignore(",
            ),
            # The rule below the front door has to forget it as well.
            Change(
                "core/admission/sql/idempotency.sql",
                "WHERE stored.expires_at <= now() OR (stored.stream_id",
                "WHERE stored.expires_at <= now()\n"
                "    OR NOT EXISTS (SELECT FROM workorders.work_orders WHERE id = stored.work_order_id)\n"
                "    OR (stored.stream_id",
            ),
        ),
        (f"{SINGLE}::test_a_deleted_work_order_does_not_come_back",),
    ),
    Mutation(
        "unique-source-key-dropped",
        2,
        (
            Change(
                "core/migrations/versions/core_0001.sql",
                "    UNIQUE (stream_id, position),\n",
                "",
            ),
        ),
        (
            f"{CREATE_FOR}::test_of_two_writers_that_both_promise_new_events_one_fails",
            f"{INGEST}::test_a_work_order_that_comes_in_between_fails_the_attempt_and_is_not_doubled",
        ),
    ),
    Mutation(
        "replay-taken-for-fresh",
        2,
        (Change("kafka/ingest/transaction.py", "if attempt.is_replay:", "if False:"),),
        (
            f"{INGEST}::test_a_replay_adds_nothing_and_moves_nothing",
            f"{INGEST}::test_two_replays_at_once_restore_each_message_once",
        ),
    ),
    Mutation(
        "batch-planned-again-while-unfinished",
        2,
        (
            Change(
                "kafka/planning/range_planning.py",
                "if position is not None and not position.busy:",
                "if position is not None:",
            ),
        ),
        (
            f"{PLANNING}::test_only_free_partitions_with_a_backlog_are_planned_each_once_and_sorted",
            f"{PLANNER}::test_a_partition_whose_batch_is_unfinished_is_left_alone_and_the_others_continue",
        ),
    ),
    Mutation(
        "one-unfinished-batch-a-partition-dropped",
        2,
        (
            Change(
                "kafka/migrations/versions/kafka_0001.sql",
                "CREATE UNIQUE INDEX kafka_ranges_unfinished_idx",
                "CREATE INDEX kafka_ranges_unfinished_idx",
            ),
        ),
        (f"{BATCHES}::test_a_partition_is_in_one_unfinished_batch_at_most",),
    ),
)

ORDER_OF_COMMITS = (
    Mutation(
        "epoch-forgotten",
        3,
        (EPOCH_UNDER_THE_LOCK, Change(MOVE_SQL, "        AND ledger.epoch = %(epoch)s\n", "")),
        (
            f"{INGEST}::test_an_older_attempt_is_fenced_and_changes_nothing",
            f"{LEDGER}::test_moving_is_compare_and_set",
        ),
    ),
    Mutation(
        "attempt-without-an-epoch-of-its-own",
        3,
        (Change(LEDGER_SQL, "SET epoch = %(epoch)s,\n    attempts", "SET attempts"),),
        (
            f"{LEDGER}::test_an_attempt_takes_the_epoch_of_unfinished_partitions_only",
            f"{INGEST}::test_of_two_attempts_at_once_exactly_the_newer_one_wins",
        ),
    ),
    Mutation(
        "compare-and-set-compares-nothing",
        3,
        (PLACE_UNDER_THE_LOCK, Change(MOVE_SQL, "        AND ledger.next_offset < prefix.moves_before\n", "")),
        (
            f"{INGEST}::test_a_ledger_that_is_not_at_the_ranges_start_is_a_conflict",
            f"{LEDGER}::test_moving_is_compare_and_set",
        ),
    ),
    Mutation(
        "rows-committed-before-the-ledger",
        3,
        (
            Change(
                "kafka/ingest/transaction.py",
                "            if breaker is not None:\n",
                '            connection.execute("COMMIT; BEGIN")\n            if breaker is not None:\n',
            ),
        ),
        (f"{INGEST}::test_a_range_of_another_batch_that_is_finished_already_is_fenced",),
    ),
    Mutation(
        "group-committed-first",
        3,
        (Change("kafka/airflow/dags.py", "create >> commit", "commit >> create"),),
        ("unit/kafka/airflow/test_dags.py::test_the_ingest_creates_then_commits_and_runs_on_request_only",),
    ),
    Mutation(
        "group-committed-where-the-batch-ends",
        3,
        (
            Change(
                LEDGER_SQL,
                "SELECT DISTINCT ledger.topic, ledger.partition, ledger.topic_id, ledger.next_offset\n",
                "SELECT DISTINCT ledger.topic, ledger.partition, ledger.topic_id, ranges.end_offset\n",
            ),
        ),
        (f"{LEDGER}::test_the_positions_of_a_batch_are_the_ledgers_and_not_the_ranges",),
    ),
    Mutation(
        "lost-answer-of-a-commit-taken-for-a-failure",
        3,
        (Change("kafka/spark/driver.py", "if result.error is None or result.fenced or finished is None:", "if True:"),),
        (f"{AMBIGUOUS}::test_a_commit_whose_answer_is_lost_counts_and_stalls_nothing",),
    ),
)

ISOLATED_AND_SEEN = (
    Mutation(
        "failure-of-a-partition-cancels-the-others",
        4,
        (
            Change(
                "kafka/spark/partition_ingest.py",
                "except Exception as failure:",
                "except ZeroDivisionError as failure:",
            ),
        ),
        (
            "unit/kafka/spark/test_partition_ingest.py::test_a_failure_is_answered_and_not_raised_so_that_other_partitions_continue",
        ),
    ),
    Mutation(
        "replay-takes-the-partition-from-the-next-batch",
        4,
        (
            Change(
                LEDGER_SQL,
                "kafka_unfinished_ranges AS ranges\nWHERE ranges.batch_id = %(batch_id)s\n    AND (ledger.",
                "kafka_ranges AS ranges\nWHERE ranges.batch_id = %(batch_id)s\n    AND (ledger.",
            ),
        ),
        (
            f"{INGEST}::test_a_replay_takes_no_partition_from_the_batch_that_reads_on",
            f"{LEDGER}::test_an_attempt_takes_the_epoch_of_unfinished_partitions_only",
        ),
    ),
    Mutation(
        "older-attempt-speaks-of-a-stall",
        5,
        (
            Change(
                LEDGER_SQL,
                "                AND batches.epoch = %(epoch)s\n        )\n    FOR NO KEY UPDATE SKIP LOCKED",
                "        )\n    FOR NO KEY UPDATE SKIP LOCKED",
            ),
        ),
        (f"{LEDGER}::test_an_older_attempt_records_no_stall",),
    ),
    Mutation(
        "committed-range-stalled",
        5,
        (Change(LEDGER_SQL, "        AND next_offset < %(end_offset)s\n", ""),),
        (f"{STALLS}::test_an_error_that_comes_after_the_commit_stalls_nothing",),
    ),
    Mutation(
        "stall-waits-for-a-writer",
        5,
        (Change(LEDGER_SQL, "FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"),),
        (f"{STALLS}::test_a_range_that_is_being_written_holds_up_no_error_of_the_others",),
    ),
    Mutation(
        "tries-run-out",
        6,
        (Change("airflow/retries.py", '"retries": UNLIMITED_RETRIES', '"retries": 5'),),
        ("unit/kafka/airflow/test_dags.py::test_every_task_is_retried_without_end",),
    ),
    Mutation(
        "replay-that-lost-messages-succeeds",
        7,
        (Change("kafka/ingest/transaction.py", "if missing > 0:", "if False:"),),
        (f"{INGEST}::test_a_replay_that_cannot_restore_everything_restores_the_rest_and_reports_how_much_is_lost",),
    ),
    Mutation(
        "core-knows-kafka",
        8,
        (
            Change(
                "core/items.py",
                "from typing import Any, Final, NamedTuple",
                "from typing import Any, Final, NamedTuple\n\nimport confluent_kafka",
            ),
        ),
        (CONTRACTS,),
    ),
)

TRANSACTIONS_AND_LOSS = (
    Mutation(
        "batch-ends-behind-the-last-stable-offset",
        9,
        (Change("kafka/planning/range_planning.py", "return log.last_stable\n", "return log.high_watermark\n"),),
        (
            f"{PLANNING}::test_messages_of_an_open_transaction_are_waited_for",
            f"{PLANNER}::test_a_batch_ends_before_an_open_transaction",
        ),
    ),
    Mutation(
        "end-proved-with-uncommitted-messages",
        9,
        (Change("kafka/client/range_consumer.py", '"read_committed",', '"read_uncommitted",'),),
        (f"{RANGE_END}::test_an_aborted_tail_is_invisible",),
    ),
    Mutation(
        "spark-reads-aborted-messages",
        9,
        (
            Change("kafka/client/java_settings.py", '"read_committed"}', '"read_uncommitted"}'),
            Change("kafka/spark/source.py", 'level": "read_committed",', 'level": "read_uncommitted",'),
        ),
        (f"{SPARK}::test_every_visible_message_becomes_one_work_order_and_a_replay_adds_nothing",),
    ),
    Mutation(
        "listener-and-relay-trust-every-server",
        8,
        (
            Change(
                "kafka/client/settings.py",
                "    _require_server_verification(normal)\n    return",
                "    return",
            ),
        ),
        ("unit/kafka/client/test_settings.py::test_no_client_may_trust_every_server",),
    ),
    Mutation(
        "recreated-topic-read-with-the-old-offsets",
        10,
        (Change("kafka/ingest/log_checks.py", "if log.partition.topic_id != range_.partition.topic_id:", "if False:"),),
        (f"{CHECKS}::test_a_recreated_topic_is_never_read_with_the_old_offsets",),
    ),
    Mutation(
        "topic-id-not-checked-under-the-lock",
        10,
        (Change("kafka/ingest/transaction.py", "if locked.topic_id != range_.partition.topic_id:", "if False:"),),
        (f"{INGEST}::test_a_ledger_that_follows_another_topic_of_that_name_is_not_moved",),
    ),
    Mutation(
        "messages-deleted-unread-passed-over",
        10,
        (Change("kafka/ingest/log_checks.py", "if log_start > range_.start:", "if False:"),),
        (f"{CHECKS}::test_what_retention_deleted_unread_is_named",),
    ),
    Mutation(
        "log-compared-with-the-range-alone",
        10,
        (Change("kafka/ingest/log_checks.py", "max(range_.planned.end, stored_end):", "range_.end:"),),
        (
            f"{CHECKS}::test_a_log_that_ends_before_what_is_stored_is_not_read_at_all",
            f"{CHECKS}::test_only_the_virtual_partition_whose_messages_are_gone_is_unreadable_unless_the_log_was_cut",
        ),
    ),
    Mutation(
        "virtual-partition-leaves-no-end-of-what-is-stored",
        10,
        (
            Change(
                "kafka/ledger/sql/virtual_partitions.sql",
                "SET stored_end = greatest(ledger.stored_end, %(end_offset)s)",
                "SET stored_end = ledger.stored_end",
            ),
        ),
        (
            "integration/kafka/ledger/test_virtual_partitions.py::test_the_ledger_is_at_the_first_gap_in_every_order_of_finishing",
        ),
    ),
    Mutation(
        "contradiction-never-planned",
        10,
        (
            Change(
                "kafka/planning/range_planning.py",
                "return max(log.last_stable, position.next_offset + 1)",
                "return log.last_stable",
            ),
        ),
        (f"{PLANNING}::test_a_contradiction_of_log_and_ledger_gets_a_range_that_will_fail_where_people_look",),
    ),
)

MUTATIONS = (
    *NO_LOSS,
    *NO_DUPLICATES,
    *ORDER_OF_COMMITS,
    *ISOLATED_AND_SEEN,
    *TRANSACTIONS_AND_LOSS,
    *ADMISSION,
    *DELETED_IS_NOT_NEW,
    *RUNS,
    *HOSTILE_VALUES,
    *HOSTILE_SCHEMAS,
    *ISOLATION,
    *OUTBOX,
    *OUTAGES,
    *WEBHOOKS,
    *PAGES_OF_AIRFLOW,
    *LOGINS,
    *STARTING,
    *SPARK_ELSEWHERE,
    *GROWING_BATCHES,
    *VIRTUAL_PARTITIONS,
    *CONTENTS,
    *SECRETS_AND_AUDIT,
)
