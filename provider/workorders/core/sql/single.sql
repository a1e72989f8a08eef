-- name: number_key
-- Waits for another transaction that numbers the same key; gives no row when it was numbered before.
INSERT INTO workorders.source_keys (stream_id, key_hash)
VALUES (%(stream_id)s, %(key_hash)s)
ON CONFLICT (stream_id, key_hash) DO NOTHING
RETURNING position;

-- name: find_key
SELECT position
FROM workorders.source_keys
WHERE stream_id = %(stream_id)s AND key_hash = %(key_hash)s;

-- name: by_id
SELECT id, state::text AS state
FROM workorders.work_orders
WHERE id = ANY (%(ids)s);

-- name: by_source_key
SELECT id, state::text AS state
FROM workorders.work_orders
WHERE stream_id = %(stream_id)s AND position = %(position)s;
