"""Breaks of the outbox, whose promises are those of the way in: no loss, no duplicates, order, isolation."""

from mutations.mutation import Change, Mutation

CRASHES, HOLDS, RETRIES, CHANGES, RIGHTS, CONTRADICTIONS = (
    f"integration/outbox/relay/test_{name}.py"
    for name in ("crashes", "holds", "retries", "changes", "rights", "contradictions")
)
OWN_TOPIC = "integration/outbox/relay/test_own_topic.py"
BATCHES = "integration/outbox/store/test_claims.py"
ENQUEUE = "integration/outbox/test_enqueue.py"
DEAD_LETTERS, WORKER = "integration/kafka/ingest/test_dead_letters.py", "integration/core/worker/test_worker.py"
MIGRATION = "outbox/migrations/versions/outbox_0001.sql"

OUTBOX = (
    Mutation(
        "outbox-batch-not-known-by-its-checkpoint",
        2,
        (Change("outbox/store/claims.py", "if number == found:", "if False:"),),
        (f"{BATCHES}::test_a_checkpoint_that_does_not_fit_stops_the_shard_and_changes_nothing",),
    ),
    Mutation(
        "outbox-checkpoint-is-always-believed",
        2,
        (
            Change(
                "outbox/store/claims.py",
                "if known not in {found, _ACCEPT_ANY_CHECKPOINT} and (number is not None or found > known):",
                "if False:",
            ),
        ),
        (f"{BATCHES}::test_a_checkpoint_that_does_not_fit_stops_the_shard_and_changes_nothing",),
    ),
    Mutation(
        "outbox-checkpoint-of-any-program-counts",
        1,
        (
            Change(
                "outbox/relay/checkpoints.py",
                'return batch if hmac.compare_digest(written, value or b"") else None',
                "return batch if written else None",
            ),
        ),
        (
            f"{OWN_TOPIC}::test_a_forged_checkpoint_deletes_nothing_that_was_not_sent",
            "unit/outbox/relay/test_checkpoints.py::test_a_checkpoint_of_which_a_word_was_changed_is_none",
        ),
    ),
    Mutation(
        "outbox-record-that-is-no-checkpoint-stops-the-shard",
        4,
        (
            Change(
                "outbox/relay/checkpoints.py",
                "except (ValueError, TypeError, KeyError):",
                "except ZeroDivisionError:",
            ),
        ),
        (
            f"{OWN_TOPIC}::test_records_that_are_no_checkpoints_are_ignored_with_one_warning",
            "unit/outbox/relay/test_checkpoints.py::test_what_is_no_checkpoint_is_none",
        ),
    ),
    Mutation(
        "outbox-old-checkpoint-is-taken-for-the-last-one",
        2,
        (Change("outbox/relay/checkpoints.py", "max(found or 0, batch)", "batch"),),
        (f"{OWN_TOPIC}::test_an_old_checkpoint_that_is_written_again_is_not_the_last_one",),
    ),
    Mutation(
        "outbox-own-topic-is-sent-to",
        4,
        (Change("outbox/relay/topic_metadata.py", "if topic == self._checkpoint_topic:", "if False:"),),
        (f"{OWN_TOPIC}::test_a_message_for_the_checkpoints_topic_waits_alone_and_all_others_are_sent",),
    ),
    Mutation(
        "outbox-own-topic-is-enqueued",
        4,
        (
            Change(
                MIGRATION,
                "OR message.holds_checkpoints OR message.is_unlisted OR",
                "OR",
            ),
        ),
        (
            f"{OWN_TOPIC}::test_no_message_can_be_enqueued_for_the_checkpoint_topic",
            f"{OWN_TOPIC}::test_only_listed_topics_are_sent_to_if_the_outbox_file_requires_it",
        ),
    ),
    Mutation(
        "outbox-unlisted-topic-is-sent-to",
        4,
        (
            Change(
                "outbox/relay/topic_metadata.py",
                "elif self._listed is not None and topic not in self._listed:",
                "elif False:",
            ),
        ),
        (f"{OWN_TOPIC}::test_only_listed_topics_are_sent_to_if_the_outbox_file_requires_it",),
    ),
    Mutation(
        "outbox-rows-deleted-that-were-only-claimed",
        1,
        (Change("outbox/store/claims.py", "if number == found:", "if number is not None:"),),
        (f"{CRASHES}::test_a_relay_killed_at_a_step_loses_nothing_and_sends_nothing_twice",),
    ),
    Mutation(
        "outbox-part-of-a-batch-sent-after-a-hold",
        3,
        (
            Change(
                "outbox/relay/shard.py",
                "self._send(self._claim_again(part)) for part in",
                "self._send(self._claim_again(part)) or True for part in",
            ),
        ),
        (f"{HOLDS}::test_a_message_that_is_too_large_holds_its_key_and_takes_no_batch_mate_with_it",),
    ),
    Mutation(
        "outbox-paused-during-a-transaction-holds-its-shard",
        4,
        (Change("outbox/store/leases.py", '"idle_in_transaction_session_timeout": "10s", ', ""),),
        (f"{CRASHES}::test_a_zombie_changes_nothing_on_either_side",),
    ),
    Mutation(
        "outbox-paused-during-a-heartbeat-holds-its-shard",
        4,
        (Change("outbox/relay/relay.py", 'heartbeat", session=leases.SESSION', 'heartbeat"'),),
        (f"{CRASHES}::test_a_relay_that_stops_during_a_renewal_holds_its_shard_no_longer",),
    ),
    Mutation(
        "outbox-relay-that-differs-sends",
        2,
        (Change("outbox/store/settings.py", "if recorded != identity:", "if False:"),),
        (
            f"{CHANGES}::test_a_relay_that_differs_sends_nothing_until_the_identity_is_reset",
            f"{CHANGES}::test_a_checkpoint_topic_that_is_lost_while_a_batch_is_open_stops_the_outbox_until_an_operator_decides",
        ),
    ),
    Mutation(
        "outbox-identity-reset-while-a-batch-is-open",
        2,
        (Change("outbox/admin.py", "        if open_:\n", "        if False:\n"),),
        (f"{CHANGES}::test_a_relay_of_before_changes_nothing_once_the_identity_is_reset",),
    ),
    Mutation(
        "outbox-identity-reset-fences-no-relay",
        2,
        (
            Change(
                "outbox/sql/admin.sql",
                "SET epoch = epoch + 1, owner = NULL, leased_until = NULL, last_error = NULL\nRETURNING",
                "SET last_error = NULL\nRETURNING",
            ),
        ),
        (f"{CHANGES}::test_a_relay_of_before_sends_nothing_between_the_reset_and_the_next_relay",),
    ),
    Mutation(
        "outbox-released-shard-loses-its-fence",
        2,
        (Change("outbox/admin.py", '{"all": not released}', '{"all": True}'),),
        (
            f"{CHANGES}::test_the_old_producer_of_a_released_shard_is_fenced_before_shards_and_transactional_ids_can_change",
        ),
    ),
    Mutation(
        "outbox-topic-without-a-leader-is-not-held",
        4,
        (
            Change(
                "outbox/relay/producer.py",
                "elif error.code() == KafkaError._MSG_TIMED_OUT and self._is_other_topic_delivered():",
                "elif False:",
            ),
        ),
        (f"{RIGHTS}::test_a_topic_without_a_leader_is_held_alone",),
    ),
    Mutation(
        "outbox-rights-are-not-asked-again",
        4,
        (Change("outbox/relay/shard.py", "self._topics.clear()", "pass"),),
        (f"{RIGHTS}::test_a_topic_whose_right_is_taken_while_it_is_known_is_held_alone",),
    ),
    Mutation(
        "outbox-epoch-forgotten",
        3,
        (
            Change(
                "outbox/store/sql/claims.sql",
                "WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL\nRETURNING last_batch",
                "WHERE shard = %(shard)s\nRETURNING last_batch",
            ),
        ),
        (f"{BATCHES}::test_a_shard_has_one_owner_until_its_lease_runs_out_and_then_the_old_one_changes_nothing",),
    ),
    Mutation(
        "outbox-writers-of-a-key-not-in-turn",
        3,
        (Change(MIGRATION, "        PERFORM pg_advisory_xact_lock(4564061, lock_number);", "        NULL;"),),
        (
            f"{ENQUEUE}::test_writers_of_one_key_take_turns_and_others_do_not_wait",
            f"{ENQUEUE}::test_a_writer_of_many_keys_takes_a_sixth_of_the_lock_table_at_most_and_still_takes_its_turn",
        ),
    ),
    Mutation(
        "outbox-locks-in-any-order",
        4,
        (Change(MIGRATION, "SELECT DISTINCT unnest(numbers) ORDER BY 1 LOOP", "SELECT unnest(numbers) LOOP"),),
        (f"{ENQUEUE}::test_two_calls_that_write_the_same_keys_in_other_orders_do_not_deadlock",),
    ),
    Mutation(
        "outbox-locks-of-dead-letters-in-the-order-of-the-offsets",
        4,
        (
            Change(
                "kafka/ingest/sql/dead_letters.sql",
                "ORDER BY workorders.outbox_lock_number(",
                "ORDER BY work_orders.position, workorders.outbox_lock_number(",
            ),
        ),
        (
            f"{DEAD_LETTERS}::test_partitions_that_publish_dead_letters_with_the_same_keys_in_other_orders_do_not_deadlock",
        ),
    ),
    Mutation(
        "busy-key-of-the-outbox-waited-for",
        4,
        (Change(MIGRATION, "SET lock_timeout = '100ms'", ""),),
        (
            f"{ENQUEUE}::test_runs_whose_keys_are_busy_are_named_and_nothing_is_enqueued",
            f"{WORKER}::test_a_busy_key_delays_the_runs_that_publish_to_it_and_no_others",
        ),
    ),
    Mutation(
        "later-runs-of-an-ordering-key-pass-a-result-that-is-kept-back",
        3,
        (Change("core/worker/worker.py", "        self._release_after_kept()\n", ""),),
        (f"{WORKER}::test_a_result_that_is_kept_back_keeps_back_the_later_runs_of_its_ordering_key",),
    ),
    Mutation(
        "later-result-of-an-ordering-key-stored-before-one-that-is-kept-back",
        3,
        (
            Change(
                "core/worker/result_store.py",
                "return keys if result.ordering_key is None else keys | {result.ordering_key}",
                "return keys",
            ),
        ),
        (f"{WORKER}::test_a_result_that_is_kept_back_keeps_back_the_later_runs_of_its_ordering_key",),
    ),
    Mutation(
        "refused-result-retried",
        2,
        (Change("core/worker/result_store.py", "        may_retry=False,\n", ""),),
        (f"{WORKER}::test_what_can_never_be_sent_or_stored_is_not_retried",),
    ),
    Mutation(
        "outbox-held-key-overtaken",
        3,
        (
            Change(
                "outbox/store/sql/backlog.sql",
                "    WHERE hold.kind = 'key' AND hold.topic = share.topic AND hold.bucket = share.bucket "
                "AND hold.key = message.key",
                "    WHERE false",
            ),
            Change(
                "outbox/store/sql/holds.sql",
                "        ON hold.kind = 'key' AND hold.topic = message.topic AND hold.bucket = message.bucket "
                "AND hold.key = message.key",
                "        ON false",
            ),
        ),
        (f"{HOLDS}::test_a_message_that_is_too_large_holds_its_key_and_takes_no_batch_mate_with_it",),
    ),
    Mutation(
        "outbox-held-key-overtakes-itself",
        3,
        (
            Change(
                "outbox/store/sql/claims.sql",
                "        WHERE held.kind = 'key' AND held.topic = dropped.topic AND held.bucket = dropped.bucket",
                "        WHERE false",
            ),
        ),
        (
            f"{RETRIES}::test_a_relay_killed_while_a_held_key_is_tried_again_keeps_its_order",
            f"{RETRIES}::test_a_producer_lost_while_a_held_key_is_tried_again_keeps_its_order",
        ),
    ),
    Mutation(
        "outbox-held-key-refused-again-is-retried-without-end",
        4,
        (
            Change(
                "outbox/store/holds.py",
                '        connection.execute(_QUERIES["return_message"], message)\n',
                "",
            ),
        ),
        (f"{RETRIES}::test_a_message_that_is_refused_again_holds_its_key_longer_and_stays_its_oldest",),
    ),
    Mutation(
        "outbox-hold-that-ends-takes-a-drain-with-it",
        4,
        (
            Change(
                "outbox/store/sql/holds.sql",
                "    -- Waits for an operator who is just ending a hold; its rows then stay where they are.\n"
                "    FOR KEY SHARE OF hold\n",
                "",
            ),
        ),
        (f"{HOLDS}::test_a_hold_that_ends_while_rows_step_aside_ends_no_drain",),
    ),
    Mutation(
        "outbox-numbers-come-twice-after-a-restore",
        2,
        (Change("outbox/store/sql/claims.sql", "SET last_batch = greatest(last_batch, %(batch)s),", "SET"),),
        (f"{CONTRADICTIONS}::test_a_database_that_was_restored_continues_with_numbers_behind_those_in_kafka",),
    ),
    Mutation(
        "outbox-stalled-shard-is-not-shown",
        5,
        (
            Change(
                "outbox/relay/relay.py",
                "            leases.record_error(connection, lease, one_line(error))\n",
                "",
            ),
        ),
        (f"{CONTRADICTIONS}::test_status_shows_a_contradiction_until_an_operator_has_decided",),
    ),
    Mutation(
        "outbox-topic-with-a-backlog-takes-all",
        4,
        (
            Change(
                "outbox/store/sql/backlog.sql",
                "greatest(1, %(messages)s / (SELECT count(DISTINCT topic) FROM requested) / count(*) OVER topics) "
                "AS messages",
                "CASE WHEN topic = (SELECT max(topic) FROM requested) THEN %(messages)s ELSE 0 END AS messages",
            ),
        ),
        (f"{BATCHES}::test_a_topic_with_a_backlog_leaves_room_for_the_others",),
    ),
)
