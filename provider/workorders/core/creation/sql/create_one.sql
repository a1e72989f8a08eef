-- name: number_key
-- Waits for another transaction that numbers the same key; gives no row when it was numbered before. A key whose time is
-- over is numbered anew, whether or not its work order is still there.
INSERT INTO workorders.source_keys AS kept (stream_id, key_hash, expires_at)
VALUES (%(stream_id)s, %(key_hash)s, now() + make_interval(secs => %(key_seconds)s))
ON CONFLICT (stream_id, key_hash) DO UPDATE
SET position = DEFAULT, created_at = now(), expires_at = EXCLUDED.expires_at
WHERE kept.expires_at <= now()
RETURNING position;

-- name: expire_keys
-- By the index of the times, the oldest first; one that somebody holds is left to the next.
DELETE FROM workorders.source_keys AS kept
USING (
    SELECT stream_id, key_hash
    FROM workorders.source_keys
    WHERE expires_at <= now()
    ORDER BY expires_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
) AS over
WHERE (kept.stream_id, kept.key_hash) = (over.stream_id, over.key_hash);

-- name: find_key
SELECT position
FROM workorders.source_keys
WHERE stream_id = %(stream_id)s AND key_hash = %(key_hash)s;

-- block: what_became
SELECT work_orders.id, work_orders.state::text AS state, rejections.code AS reason, rejections.detail,
    duplicates.original_id AS original
FROM workorders.work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.duplicates ON duplicates.work_order_id = work_orders.id

-- name: by_id
-- use: what_became
WHERE work_orders.id = %(id)s;

-- name: by_source_key
-- use: what_became
WHERE work_orders.stream_id = %(stream_id)s AND work_orders.position = %(position)s;
