"""Breaks of the outbox, whose promises are those of the way in: no loss, no duplicates, order, isolation."""

from mutations.mutation import Change, Mutation

CRASHES, HOLDS, RETRIES, CHANGES, RIGHTS, CONTRADICTIONS = (
    f"integration/outbox/relay/test_{name}.py"
    for name in ("crashes", "holds", "retries", "changes", "rights", "contradictions")
)
OWN_TOPIC = "integration/outbox/relay/test_own_topic.py"
BATCHES = "integration/outbox/store/test_claims.py"
ENQUEUE = "integration/outbox/test_enqueue.py"
WORKER = "integration/core/worker/test_worker.py"
MIGRATION = "outbox/migrations/versions/outbox_0001.sql"

OUTBOX = (
    Mutation(
        "outbox-batch-not-known-by-its-checkpoint",
        2,
        (Change("outbox/store/claims.py", "if number == found:", "if False:"),),
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
        "outbox-old-checkpoint-is-taken-for-the-last-one",
        2,
        (Change("outbox/relay/checkpoints.py", "max(own, default=None)", "own[-1] if own else None"),),
        (f"{OWN_TOPIC}::test_an_old_checkpoint_that_is_written_again_is_not_the_last_one",),
    ),
    Mutation(
        "outbox-own-topic-is-sent-to",
        4,
        (
            Change(
                "outbox/relay/shard.py",
                '{self._checkpoint_topic: "the relay keeps its own checkpoints in it"}',
                "{}",
            ),
        ),
        (f"{OWN_TOPIC}::test_a_message_for_the_checkpoints_topic_waits_alone_and_all_others_are_sent",),
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
                "self._send(claims.claim_again(self._connection, self._lease, part))\n",
                "self._send(claims.claim_again(self._connection, self._lease, part)) or True\n",
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
        "outbox-relay-that-differs-sends",
        2,
        (Change("outbox/store/settings.py", "if recorded != identity:", "if False:"),),
        (
            f"{CHANGES}::test_a_relay_that_differs_sends_nothing_until_the_identity_is_reset",
            f"{CHANGES}::test_a_checkpoint_topic_that_is_lost_while_a_batch_is_open_stops_the_outbox_until_an_operator_decides",
        ),
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
        (Change(MIGRATION, "    PERFORM workorders.outbox_lock(locks);\n", ""),),
        (
            f"{ENQUEUE}::test_writers_of_one_key_take_turns_and_others_do_not_wait",
            f"{ENQUEUE}::test_a_writer_of_many_keys_takes_a_sixth_of_the_lock_table_at_most_and_still_takes_its_turn",
        ),
    ),
    Mutation(
        "outbox-locks-in-any-order",
        4,
        (
            Change(
                MIGRATION,
                "SELECT DISTINCT unnest(numbers) AS number ORDER BY 1",
                "SELECT unnest(numbers) AS number",
            ),
        ),
        (f"{ENQUEUE}::test_two_calls_that_write_the_same_keys_in_other_orders_do_not_deadlock",),
    ),
    Mutation(
        "later-runs-of-an-ordering-key-pass-a-result-that-is-kept-back",
        3,
        (Change("core/worker/worker.py", "self._release_unstarted(lambda run: run.ordering_key in keys)", "pass"),),
        (f"{WORKER}::test_a_result_that_is_kept_back_keeps_back_the_later_runs_of_its_ordering_key",),
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
                "outbox/store/sql/claims.sql",
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
                "outbox/store/sql/holds.sql",
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
        "outbox-numbers-come-twice-after-a-restore",
        2,
        (Change("outbox/store/sql/claims.sql", "SET last_batch = greatest(last_batch, %(batch)s),", "SET"),),
        (f"{CONTRADICTIONS}::test_a_database_that_was_restored_continues_with_numbers_behind_those_in_kafka",),
    ),
)
