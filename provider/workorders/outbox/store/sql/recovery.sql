-- name: open_claims
SELECT batch, sum(cardinality(ids))::bigint FROM workorders.outbox_claims
WHERE shard = %(shard)s GROUP BY batch ORDER BY batch

-- name: checkpoint_batch
SELECT checkpoint_batch FROM workorders.outbox_shards WHERE shard = %(shard)s

-- name: accept_checkpoint
-- After an operator's decision: numbers continue after the one in Kafka.
UPDATE workorders.outbox_shards
SET last_batch = greatest(last_batch, %(batch)s), checkpoint_batch = %(batch)s
WHERE shard = %(shard)s AND epoch = %(epoch)s
