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
