-- block: move_found
-- Held messages are in other buckets, `~bucket`, out of the way of all others.
UPDATE workorders.outbox_messages AS message SET hold_id = found.hold_id, bucket = ~message.bucket FROM found
WHERE message.topic = found.topic AND message.bucket = found.bucket AND message.id = found.id

-- name: drop_claims
-- A row of a held key was being retried. It returns to its hold, so that no later row of its key overtakes it.
WITH dropped AS (
    DELETE FROM workorders.outbox_claims WHERE shard = %(shard)s RETURNING topic, bucket, ids
), found AS (
    SELECT hold.id AS hold_id, message.topic, message.bucket, message.id
    FROM dropped CROSS JOIN LATERAL unnest(dropped.ids) AS claimed (id)
    JOIN workorders.outbox_messages AS message
        ON message.topic = dropped.topic AND message.bucket = dropped.bucket AND message.id = claimed.id
    JOIN workorders.outbox_holds AS hold
        ON hold.topic = message.topic AND hold.bucket = message.bucket AND hold.key = message.key AND hold.kind = 'key'
    WHERE EXISTS (
        SELECT FROM workorders.outbox_holds AS held
        WHERE held.kind = 'key' AND held.topic = dropped.topic AND held.bucket = dropped.bucket
    )
    FOR KEY SHARE OF hold
)
-- use: move_found

-- block: count_failure
WITH counted AS (
    INSERT INTO workorders.outbox_counters AS counter (topic, shard, failed) VALUES (%(topic)s, %(shard)s, 1)
    ON CONFLICT (topic, shard) DO UPDATE SET failed = counter.failed + 1
)

-- name: hold_topic
-- use: count_failure
INSERT INTO workorders.outbox_holds AS hold (kind, topic, reason, next_try_at)
VALUES ('topic', %(topic)s, %(reason)s, clock_timestamp() + interval '1 minute')
ON CONFLICT (topic) WHERE kind = 'topic' DO UPDATE
SET reason = excluded.reason, tries = hold.tries + 1,
    next_try_at = clock_timestamp() + least(interval '1 minute' * 2 ^ least(hold.tries, 10), interval '1 hour')
-- Each shard meets the same failure; the first one has set the time of the next retry.
WHERE hold.next_try_at <= clock_timestamp()

-- name: hold_message
-- With its key, or alone; a message that is held alone is not retried. One that was being retried may have returned to its
-- hold: `buckets` are both those of waiting and those of held messages.
-- use: count_failure
, held AS (
    INSERT INTO workorders.outbox_holds AS hold (kind, topic, bucket, key, reason, next_try_at)
    SELECT %(kind)s::text, topic, greatest(bucket, ~bucket), key, %(reason)s,
        CASE WHEN %(kind)s = 'key' THEN clock_timestamp() + interval '1 minute' END
    FROM workorders.outbox_messages WHERE topic = %(topic)s AND bucket = ANY (%(buckets)s) AND id = %(id)s
    ON CONFLICT (topic, bucket, sha256(key)) WHERE kind = 'key' DO UPDATE
    SET reason = excluded.reason, tries = hold.tries + 1,
        next_try_at = clock_timestamp() + least(interval '1 minute' * 2 ^ least(hold.tries, 10), interval '1 hour')
    RETURNING id
)
UPDATE workorders.outbox_messages AS message SET hold_id = held.id, bucket = least(message.bucket, ~message.bucket)
FROM held WHERE message.topic = %(topic)s AND message.bucket = ANY (%(buckets)s) AND message.id = %(id)s

-- name: release_hold
-- The hold is locked before its messages, as by an operator; otherwise both could wait for each other.
WITH ended AS (DELETE FROM workorders.outbox_holds WHERE id = %(hold)s RETURNING id)
UPDATE workorders.outbox_messages AS message SET hold_id = NULL, bucket = ~message.bucket FROM ended
WHERE message.hold_id = ended.id
