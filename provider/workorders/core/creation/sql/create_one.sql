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
