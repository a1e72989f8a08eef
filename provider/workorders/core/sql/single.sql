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
SELECT work_orders.id, work_orders.state::text AS state, rejections.code AS reason, rejections.detail,
    duplicates.original_id AS original
FROM workorders.work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.duplicates ON duplicates.work_order_id = work_orders.id
WHERE work_orders.id = ANY (%(ids)s);

-- name: by_source_key
SELECT work_orders.id, work_orders.state::text AS state, rejections.code AS reason, rejections.detail,
    duplicates.original_id AS original
FROM workorders.work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
LEFT JOIN workorders.duplicates ON duplicates.work_order_id = work_orders.id
WHERE work_orders.stream_id = %(stream_id)s AND work_orders.position = %(position)s;
