-- name: next_batch_number
-- The gate of every claim: with another epoch, nothing is changed.
UPDATE workorders.outbox_shards
SET last_batch = last_batch + 1, leased_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL
RETURNING last_batch

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

-- name: write_claim
INSERT INTO workorders.outbox_claims (shard, batch, topic, bucket, ids)
SELECT %(shard)s, %(batch)s, topic, bucket, ids::bigint[]
FROM unnest(%(topics)s::text[], %(buckets)s::smallint[], %(ids)s::text[]) AS part (topic, bucket, ids)

-- name: delete_sent
WITH claim AS (
    DELETE FROM workorders.outbox_claims WHERE shard = %(shard)s AND batch = %(batch)s RETURNING topic, bucket, ids
), deleted AS (
    DELETE FROM workorders.outbox_messages AS message USING claim
    WHERE message.topic = claim.topic AND message.bucket = claim.bucket AND message.id = ANY (claim.ids)
)
INSERT INTO workorders.outbox_counters AS counter (topic, shard, sent, last_sent_at)
SELECT topic, %(shard)s, sum(cardinality(ids)), now() FROM claim GROUP BY topic
ON CONFLICT (topic, shard) DO UPDATE SET sent = counter.sent + excluded.sent, last_sent_at = excluded.last_sent_at

-- name: count_compacted
UPDATE workorders.outbox_counters
SET sent = sent - %(compacted)s, compacted = compacted + %(compacted)s
WHERE topic = %(topic)s AND shard = %(shard)s

-- name: end_hold_of_topic
-- A topic that takes a message of a key must not be held.
DELETE FROM workorders.outbox_holds WHERE kind = 'topic' AND topic = %(topic)s

-- name: open_batch
-- At most one batch is open: each is deleted or given back before the next one is claimed, or with its claim.
SELECT max(claim.batch), coalesce(sum(cardinality(claim.ids)), 0)::bigint, shard.checkpoint_batch
FROM workorders.outbox_shards AS shard LEFT JOIN workorders.outbox_claims AS claim ON claim.shard = shard.shard
WHERE shard.shard = %(shard)s GROUP BY shard.shard

-- name: record_checkpoint
-- A batch in Kafka shows that the shard works. After an operator's decision, numbers continue after the one in Kafka.
UPDATE workorders.outbox_shards
SET last_batch = greatest(last_batch, %(batch)s), checkpoint_batch = %(batch)s, last_error = NULL
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL
