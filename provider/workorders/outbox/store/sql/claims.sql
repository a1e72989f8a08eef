-- name: next_batch_number
-- The gate of every write for a shard: with another epoch, nothing is changed.
UPDATE workorders.outbox_shards
SET last_batch = last_batch + 1, checkpoint_batch = coalesce(%(completed)s::bigint, checkpoint_batch),
    leased_until = clock_timestamp() + make_interval(secs => %(seconds)s),
    -- A batch in Kafka shows that the shard works.
    last_error = CASE WHEN %(completed)s::bigint IS NULL THEN last_error END
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL
RETURNING last_batch

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

-- name: open_batch
-- At most one batch is open: the transaction that claims a batch deletes the one before, or gives it back.
SELECT max(claim.batch), coalesce(sum(cardinality(claim.ids)), 0)::bigint, shard.checkpoint_batch
FROM workorders.outbox_shards AS shard LEFT JOIN workorders.outbox_claims AS claim ON claim.shard = shard.shard
WHERE shard.shard = %(shard)s GROUP BY shard.shard

-- name: accept_checkpoint
-- After an operator's decision: numbers continue after the one in Kafka.
UPDATE workorders.outbox_shards
SET last_batch = greatest(last_batch, %(batch)s), checkpoint_batch = %(batch)s
WHERE shard = %(shard)s AND epoch = %(epoch)s
