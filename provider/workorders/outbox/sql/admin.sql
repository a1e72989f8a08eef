-- name: topics
WITH stored AS (
    SELECT topic, count(*) AS messages, count(hold_id) AS held, min(enqueued_at) AS oldest
    FROM workorders.outbox_messages GROUP BY topic
), done AS (
    SELECT topic, sum(sent)::bigint AS sent, sum(compacted)::bigint AS compacted, sum(failed)::bigint AS failed,
        max(last_sent_at) AS last_sent_at
    FROM workorders.outbox_counters GROUP BY topic
)
SELECT topic, coalesce(stored.messages - stored.held, 0) AS waiting,
    extract(epoch FROM clock_timestamp() - stored.oldest)::double precision AS oldest_seconds,
    coalesce(stored.held, 0) AS held, coalesce(done.sent, 0) AS sent, coalesce(done.compacted, 0) AS compacted,
    coalesce(done.failed, 0) AS failed, done.last_sent_at
FROM stored FULL JOIN done USING (topic)
ORDER BY topic

-- name: oldest
-- use: pairs
SELECT min(oldest_of_pair.enqueued_at)
FROM pair
-- use: oldest_of_pair

-- name: holds
SELECT hold.id, hold.kind, hold.topic, hold.key, hold.reason, hold.tries, hold.since, hold.next_try_at,
    CASE hold.kind
        WHEN 'topic' THEN (
            SELECT count(*) FROM workorders.outbox_messages AS message
            WHERE message.topic = hold.topic AND message.bucket >= 0
        )
        ELSE (SELECT count(*) FROM workorders.outbox_messages AS held WHERE held.hold_id = hold.id)
    END AS messages
FROM workorders.outbox_holds AS hold
ORDER BY hold.id

-- name: shards
SELECT shard.shard, shard.epoch, shard.owner,
    shard.owner IS NOT NULL AND shard.leased_until >= clock_timestamp() AS is_leased, shard.leased_until,
    shard.last_batch, shard.checkpoint_batch,
    (SELECT coalesce(sum(cardinality(ids)), 0)::bigint FROM workorders.outbox_claims AS claim
     WHERE claim.shard = shard.shard) AS in_flight,
    shard.last_error
FROM workorders.outbox_shards AS shard CROSS JOIN workorders.outbox_identity AS identity
WHERE shard.shard < coalesce(identity.shards, 1)
ORDER BY shard.shard

-- name: open_batch
SELECT claim.topic, sum(cardinality(claim.ids))::bigint AS messages, min(first.enqueued_at) AS oldest_at
FROM workorders.outbox_claims AS claim
LEFT JOIN LATERAL (
    SELECT message.enqueued_at FROM workorders.outbox_messages AS message
    WHERE message.topic = claim.topic AND message.bucket = claim.bucket AND message.id = claim.ids[1]
    OFFSET 0
) AS first ON true
WHERE claim.shard = %(shard)s
GROUP BY claim.topic
ORDER BY claim.topic

-- name: lock_hold
-- A relay that moves a message to the hold waits until the caller's transaction ends.
SELECT kind FROM workorders.outbox_holds WHERE id = %(hold)s FOR UPDATE

-- name: purge_hold
WITH ended AS (DELETE FROM workorders.outbox_holds WHERE id = %(hold)s)
DELETE FROM workorders.outbox_messages WHERE hold_id = %(hold)s

-- name: accept_any_checkpoint
UPDATE workorders.outbox_shards
SET checkpoint_batch = -1, epoch = epoch + 1, owner = NULL, leased_until = NULL, last_error = NULL
WHERE shard = %(shard)s AND (owner IS NULL OR leased_until < clock_timestamp())

-- name: settle_claimed
-- Deletes the messages of the open batch if they were sent, and returns their number.
WITH deleted AS (
    DELETE FROM workorders.outbox_messages AS message USING workorders.outbox_claims AS claim
    WHERE %(sent)s AND claim.shard = %(shard)s AND message.topic = claim.topic AND message.bucket = claim.bucket
        AND message.id = ANY (claim.ids)
)
SELECT coalesce(sum(cardinality(ids)), 0)::bigint FROM workorders.outbox_claims WHERE shard = %(shard)s

-- name: lock_shards
-- Waits for claims and leases that are just being taken, and blocks others until the caller's transaction ends.
SELECT shard, owner IS NOT NULL AND leased_until >= clock_timestamp() FROM workorders.outbox_shards
ORDER BY shard FOR UPDATE

-- name: shards_with_claims
SELECT DISTINCT shard FROM workorders.outbox_claims ORDER BY shard

-- name: fence_all
UPDATE workorders.outbox_shards SET epoch = epoch + 1, owner = NULL, leased_until = NULL, last_error = NULL
RETURNING shard, checkpoint_batch = -1

-- name: reset_identity
UPDATE workorders.outbox_identity
SET cluster_id = NULL, checkpoint_topic = NULL, checkpoint_topic_id = NULL,
    shards = CASE WHEN NOT %(all)s THEN shards END,
    transactional_id_prefix = CASE WHEN NOT %(all)s THEN transactional_id_prefix END

-- name: published
-- A message is looked for where it waits or is held, by its key there.
SELECT runs.id AS run_id, runs.attempt, published.topic, published.event_id,
    CASE
        WHEN message.hold_id IS NOT NULL THEN 'held'
        WHEN message.id IS NOT NULL THEN 'waiting'
        ELSE 'sent'
    END AS state, message.hold_id
FROM workorders.runs
JOIN workorders.outbox_published AS published ON published.run_id = runs.id
LEFT JOIN LATERAL (
    SELECT id, hold_id
    FROM workorders.outbox_messages
    WHERE topic = published.topic AND bucket IN (published.bucket, ~published.bucket) AND id = published.id
    OFFSET 0
) AS message ON true
WHERE runs.work_order_id = %(work_order_id)s
ORDER BY published.id
LIMIT %(limit)s;
