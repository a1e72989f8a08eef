-- name: lease
-- Free, or expired; the new epoch fences the former owner if it is still alive.
UPDATE workorders.outbox_shards
SET epoch = epoch + 1, owner = %(owner)s,
    leased_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE shard = %(shard)s AND (owner IS NULL OR leased_until < clock_timestamp())
RETURNING epoch

-- name: renew
UPDATE workorders.outbox_shards SET leased_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL

-- name: release
UPDATE workorders.outbox_shards SET owner = NULL, leased_until = NULL WHERE shard = %(shard)s AND epoch = %(epoch)s

-- name: record_error
UPDATE workorders.outbox_shards SET last_error = %(error)s
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner IS NOT NULL AND last_error IS DISTINCT FROM %(error)s
