-- block: move_found
, moved AS (
    DELETE FROM workorders.outbox_messages AS message USING found
    WHERE message.topic = found.topic AND message.bucket = found.bucket AND message.id = found.id
    RETURNING found.hold_id, message.*
)
INSERT INTO workorders.outbox_held
    (hold_id, id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
SELECT hold_id, id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers FROM moved

-- block: insert_back
INSERT INTO workorders.outbox_messages
    (id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers)
OVERRIDING SYSTEM VALUE
SELECT id, enqueued_at, event_id, timestamp_ms, partition, bucket, topic, key, value, headers FROM back

-- name: divert
-- Rows of held keys are moved to their holds, so that not every claim reads past them.
WITH RECURSIVE pair AS (
    (SELECT topic, bucket FROM workorders.outbox_holds WHERE kind = 'key' AND bucket = ANY (%(buckets)s)
     ORDER BY topic, bucket LIMIT 1)
    UNION ALL
    SELECT following.topic, following.bucket FROM pair CROSS JOIN LATERAL (
        SELECT hold.topic, hold.bucket FROM workorders.outbox_holds AS hold
        WHERE hold.kind = 'key' AND hold.bucket = ANY (%(buckets)s)
            AND (hold.topic, hold.bucket) > (pair.topic, pair.bucket)
        ORDER BY hold.topic, hold.bucket LIMIT 1
    ) AS following
), found AS (
    SELECT hold.id AS hold_id, message.topic, message.bucket, message.id
    FROM pair CROSS JOIN LATERAL (
        SELECT ahead.topic, ahead.bucket, ahead.id, ahead.key FROM workorders.outbox_messages AS ahead
        WHERE ahead.topic = pair.topic AND ahead.bucket = pair.bucket ORDER BY ahead.id LIMIT %(messages)s
    ) AS message
    JOIN workorders.outbox_holds AS hold
        ON hold.kind = 'key' AND hold.topic = message.topic AND hold.bucket = message.bucket AND hold.key = message.key
    -- Waits for an operator who is just ending a hold; its rows then stay where they are.
    FOR KEY SHARE OF hold
)
-- use: move_found

-- name: take_oldest
-- The oldest row of a held key is retried alone.
WITH head AS (
    SELECT id FROM workorders.outbox_held WHERE hold_id = %(hold)s ORDER BY id LIMIT 1
), back AS (
    DELETE FROM workorders.outbox_held AS held USING head WHERE held.hold_id = %(hold)s AND held.id = head.id
    RETURNING held.*
), waiting AS (
    -- use: insert_back
    RETURNING id, topic, bucket, key, value, headers, partition, timestamp_ms, event_id
)
SELECT id, topic, key, value, headers, partition, timestamp_ms, event_id::text, bucket FROM waiting

-- name: hold_topic
INSERT INTO workorders.outbox_holds AS hold (kind, topic, reason, next_try_at)
VALUES ('topic', %(topic)s, %(reason)s, clock_timestamp() + interval '1 minute')
ON CONFLICT (topic) WHERE kind = 'topic' DO UPDATE
SET reason = excluded.reason, tries = hold.tries + 1,
    next_try_at = clock_timestamp() + least(interval '1 minute' * 2 ^ least(hold.tries, 10), interval '1 hour')
-- Each shard meets the same failure; the first one has set the time of the next retry.
WHERE hold.next_try_at <= clock_timestamp()

-- name: hold_message
-- With its key, or alone; a message that is held alone is not retried.
INSERT INTO workorders.outbox_holds AS hold (kind, topic, bucket, key, reason, next_try_at)
SELECT %(kind)s::text, topic, bucket, key, %(reason)s,
    CASE WHEN %(kind)s = 'key' THEN clock_timestamp() + interval '1 minute' END
FROM workorders.outbox_messages WHERE topic = %(topic)s AND bucket = ANY (%(buckets)s) AND id = %(id)s
ON CONFLICT (topic, bucket, sha256(key)) WHERE kind = 'key' DO UPDATE
SET reason = excluded.reason, tries = hold.tries + 1,
    next_try_at = clock_timestamp() + least(interval '1 minute' * 2 ^ least(hold.tries, 10), interval '1 hour')
RETURNING id

-- name: move_to_hold
WITH found AS (
    SELECT %(hold)s::bigint AS hold_id, topic, bucket, id FROM workorders.outbox_messages
    WHERE topic = %(topic)s AND bucket = ANY (%(buckets)s) AND id = %(id)s
)
-- use: move_found

-- name: return_message
-- A row that was being retried may have returned to its hold.
WITH back AS (
    DELETE FROM workorders.outbox_held AS held USING workorders.outbox_holds AS hold
    WHERE hold.kind = 'key' AND hold.topic = %(topic)s AND hold.bucket = ANY (%(buckets)s)
        AND held.hold_id = hold.id AND held.id = %(id)s
    RETURNING held.*
)
-- use: insert_back

-- name: count_failure
INSERT INTO workorders.outbox_counters AS counter (topic, shard, failed) VALUES (%(topic)s, %(shard)s, 1)
ON CONFLICT (topic, shard) DO UPDATE SET failed = counter.failed + 1

-- name: lock_hold
SELECT kind, topic FROM workorders.outbox_holds WHERE id = %(hold)s FOR UPDATE

-- name: return_messages
WITH back AS (DELETE FROM workorders.outbox_held WHERE hold_id = %(hold)s RETURNING *)
-- use: insert_back

-- name: end_hold
DELETE FROM workorders.outbox_holds WHERE id = %(hold)s

-- name: end_hold_of_topic
DELETE FROM workorders.outbox_holds WHERE kind = 'topic' AND topic = %(topic)s
