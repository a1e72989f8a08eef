-- name: what_became
-- By the id or by the source key, whichever is given.
SELECT work_orders.id, work_orders.state::text AS state, rejections.code AS reason, rejections.detail,
    rejections.original_id AS original
FROM workorders.work_orders
LEFT JOIN workorders.rejections ON rejections.work_order_id = work_orders.id
WHERE work_orders.id = %(id)s::uuid
    OR (work_orders.stream_id = %(stream_id)s::integer AND work_orders.position = %(position)s::bigint);
