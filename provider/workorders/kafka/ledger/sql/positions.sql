-- name: lock_trigger
-- One planner at a time for each trigger. An ingest, whose rows refer to the trigger, would wait for FOR UPDATE.
SELECT id FROM workorders.triggers WHERE id = %(trigger_id)s FOR NO KEY UPDATE;

-- name: positions
SELECT ledger.topic, ledger.partition, ledger.topic_id, ledger.next_offset, ledger.mean_message_bytes,
    ranges.batch_id IS NOT NULL AS busy,
    CASE WHEN ledger.status = 'stalled'
        THEN extract(epoch FROM clock_timestamp() - ledger.status_since)::double precision
    END AS stalled_seconds,
    coalesce(ledger.alerted_since = ledger.status_since, false) AS alerted,
    ledger.cluster_id, ledger.stored_end
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
LEFT JOIN workorders.kafka_unfinished_ranges AS ranges USING (trigger_id, topic, partition)
WHERE triggers.name = %(trigger)s;

-- name: insert_position
INSERT INTO workorders.kafka_ledger
    (trigger_id, topic, partition, topic_id, cluster_id, stream_id, start_offset, next_offset, stored_end)
VALUES (%(trigger_id)s, %(topic)s, %(partition)s, %(topic_id)s, %(cluster_id)s, %(stream_id)s, %(offset)s,
    %(offset)s, %(offset)s);

-- name: subscriptions
SELECT subscriptions.subscription
FROM workorders.kafka_subscriptions AS subscriptions
JOIN workorders.triggers ON triggers.id = subscriptions.trigger_id
WHERE triggers.name = %(trigger)s;

-- name: insert_subscriptions
INSERT INTO workorders.kafka_subscriptions (trigger_id, subscription)
SELECT %(trigger_id)s, unnest(%(subscriptions)s::text[])
ON CONFLICT (trigger_id, subscription) DO NOTHING;

-- name: end_silent_writers
-- No limit of Postgres ends a COPY whose client lives and sends nothing, as a stopped process does: Postgres checks
-- statement_timeout and transaction_timeout when the client's next message arrives, and the client's kernel answers
-- keepalives. Such a session would hold its ledger row indefinitely, so it is terminated, which a role may do to its own
-- sessions. The condition is a statement that has exceeded statement_timeout.
SELECT pg_terminate_backend(sessions.pid)
FROM pg_stat_activity AS sessions
WHERE sessions.datname = current_database()
    AND sessions.usename = current_user
    AND sessions.state = 'active'
    AND sessions.wait_event = 'ClientRead'
    AND current_setting('statement_timeout') <> '0'
    AND sessions.query_start < clock_timestamp() - current_setting('statement_timeout')::interval
    AND EXISTS (
        SELECT FROM pg_locks AS locks
        WHERE locks.pid = sessions.pid
            AND locks.relation = 'workorders.kafka_ledger'::regclass
            AND locks.mode = 'RowShareLock'
            AND locks.granted
    );

-- name: lock_attempt
-- Two copies of one attempt at a partition exist if Spark considers a task slow or lost.
SELECT pg_advisory_xact_lock(%(class)s, hashtext(%(attempt)s));

-- name: lock_batch
-- FOR UPDATE waits for running virtual partitions, which hold FOR KEY SHARE. The UPDATE after it alone would not.
SELECT ledger.epoch
FROM workorders.kafka_ledger AS ledger
JOIN workorders.kafka_unfinished_ranges AS ranges USING (trigger_id, topic, partition)
WHERE ranges.batch_id = %(batch_id)s
ORDER BY ledger.topic, ledger.partition
FOR UPDATE OF ledger;

-- name: take_epoch
-- Only the partitions that this batch still holds: a replay of a finished range moves nothing, and a higher epoch would
-- fence the batch after it.
UPDATE workorders.kafka_ledger AS ledger
SET epoch = %(epoch)s,
    attempts = attempts + 1
FROM workorders.kafka_unfinished_ranges AS ranges
WHERE ranges.batch_id = %(batch_id)s
    AND (ledger.trigger_id, ledger.topic, ledger.partition) = (ranges.trigger_id, ranges.topic, ranges.partition);

-- name: lock_position
SELECT next_offset, epoch, topic_id
FROM workorders.kafka_ledger
WHERE trigger_id = %(trigger_id)s AND topic = %(topic)s AND partition = %(partition)s
FOR UPDATE;

-- name: share_position
-- The weakest lock that still excludes a newer epoch and a decision, which take FOR UPDATE. The ledger itself moves under
-- FOR NO KEY UPDATE, which does not wait for this one.
SELECT next_offset, epoch, topic_id
FROM workorders.kafka_ledger
WHERE trigger_id = %(trigger_id)s AND topic = %(topic)s AND partition = %(partition)s
FOR KEY SHARE;

-- name: stall
-- Only while the ledger is in the range: a writer that reported an error, or was taken for dead, may have committed since.
-- A row that is locked is being written now. To wait for it would hold up the errors of the other ranges. The epoch is the
-- batch's: a range that was added to it may have a higher one in the ledger.
WITH held AS (
    SELECT trigger_id, topic, partition
    FROM workorders.kafka_ledger AS ledger
    WHERE trigger_id = %(trigger_id)s
        AND topic = %(topic)s
        AND partition = %(partition)s
        AND next_offset >= %(start_offset)s
        AND next_offset < %(end_offset)s
        AND EXISTS (
            SELECT FROM workorders.kafka_unfinished_ranges AS ranges
            JOIN workorders.kafka_batches AS batches ON batches.id = ranges.batch_id
            WHERE (ranges.trigger_id, ranges.topic, ranges.partition)
                    = (ledger.trigger_id, ledger.topic, ledger.partition)
                AND ranges.start_offset = %(start_offset)s
                AND batches.epoch = %(epoch)s
        )
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE workorders.kafka_ledger AS ledger
SET status = 'stalled',
    status_since = CASE WHEN status = 'stalled' THEN status_since ELSE now() END,
    next_attempt_at = now() + (%(delays)s::double precision[])[least(greatest(attempts, 1), cardinality(%(delays)s))]
        * interval '1 second',
    last_error = %(error)s
FROM held
WHERE (ledger.trigger_id, ledger.topic, ledger.partition) = (held.trigger_id, held.topic, held.partition);

-- name: record_unanswered
-- The stalls of free partitions begin and end here; a batch records those of the partitions that it holds. The listener
-- asks Kafka again every few seconds, so that there is no time of a next try.
UPDATE workorders.kafka_ledger AS ledger
SET status = CASE WHEN found.error IS NULL THEN 'active' ELSE 'stalled' END,
    status_since = now(),
    attempts = CASE WHEN found.error IS NULL THEN 0 ELSE 1 END,
    next_attempt_at = NULL,
    last_error = found.error
FROM workorders.kafka_ledger AS free
LEFT JOIN unnest(%(topics)s::text[], %(partitions)s::integer[], %(errors)s::text[]) AS found (topic, partition, error)
    USING (topic, partition)
WHERE free.trigger_id = %(trigger_id)s
    AND (free.status = 'stalled') <> (found.error IS NOT NULL)
    AND NOT EXISTS (
        SELECT FROM workorders.kafka_unfinished_ranges AS ranges
        WHERE (ranges.trigger_id, ranges.topic, ranges.partition) = (free.trigger_id, free.topic, free.partition)
    )
    AND (ledger.trigger_id, ledger.topic, ledger.partition) = (free.trigger_id, free.topic, free.partition)
RETURNING ledger.last_error;

-- name: lock_group_commits
-- Commits of one trigger are serialized, so that the group's offset never goes back.
SELECT pg_advisory_xact_lock(%(class)s, %(trigger_id)s);

-- name: positions_of_batch
-- Without superseded ranges: Kafka may not have their partitions any more.
SELECT DISTINCT ledger.topic, ledger.partition, ledger.topic_id, ledger.next_offset
FROM workorders.kafka_ranges AS ranges
JOIN workorders.kafka_ledger AS ledger USING (trigger_id, topic, partition)
WHERE ranges.batch_id = %(batch_id)s AND ranges.superseded_by IS NULL
ORDER BY ledger.topic, ledger.partition;

-- name: status
SELECT triggers.name AS trigger, ledger.topic, ledger.partition, ledger.topic_id, ledger.next_offset, ledger.status,
    ledger.status_since, ledger.attempts, ledger.next_attempt_at, ledger.last_error, ledger.stored_end, ranges.batch_id
FROM workorders.kafka_ledger AS ledger
JOIN workorders.triggers ON triggers.id = ledger.trigger_id
LEFT JOIN workorders.kafka_unfinished_ranges AS ranges USING (trigger_id, topic, partition)
WHERE %(trigger)s::text IS NULL OR triggers.name = %(trigger)s
ORDER BY triggers.name, ledger.topic, ledger.partition;

-- name: remove_topic
-- Not while a batch holds a partition of it: that one needs a decision.
DELETE FROM workorders.kafka_ledger AS ledger
WHERE ledger.trigger_id = %(trigger_id)s
    AND ledger.topic = %(topic)s
    AND NOT EXISTS (
        SELECT FROM workorders.kafka_unfinished_ranges AS ranges
        WHERE (ranges.trigger_id, ranges.topic) = (ledger.trigger_id, ledger.topic)
    );
